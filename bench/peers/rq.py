"""RQ on Redis: a worker takes one job after another, each run in a forked process of its own."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.peers.environment import PythonEnvironment
from bench.peers.peer import Configuration, Peer
from bench.peers.program import Producer, Program, note
from bench.peers.tally import Journal

BEST = Configuration(
    name="best",
    why="its 'Notes on Performance': SimpleWorker, which does not fork for each job; a process for "
    "each core",
    processes=2,
    jobs=2_000,
    settings={"worker": "SimpleWorker"},
)

PEER = Peer(
    name="rq",
    environment=PythonEnvironment("rq"),
    broker="redis",
    unfinished="llen rq:queue:default\nzcard rq:wip:default",
    order="none",
    loss="marked as failed when its worker has not been heard of; run again if retries are set",
    configurations=(
        Configuration(
            name="default",
            why="one worker, which forks for each job",
            jobs=200,
            settings={"worker": "Worker"},
        ),
        BEST,
        replace(BEST, name="best-always", fsync="always"),
    ),
)

journal: Journal | None = None


def deliver(number: int, note: str) -> None:
    """Do nothing, and write it down."""
    global journal
    if journal is None:
        journal = Journal()
    journal.ran(number)


@contextlib.asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    """Connect."""
    yield Enqueuer(_queue(url))


@dataclass(frozen=True, slots=True)
class Enqueuer:
    """What enqueues."""

    queue: Any

    async def one(self, number: int) -> None:
        """Enqueue one job."""
        self.queue.enqueue("bench.peers.rq.deliver", number, note(number))

    async def many(self, numbers: Sequence[int], keys: int) -> None:
        """Enqueue jobs in one pipeline."""
        self.queue.enqueue_many(
            [
                self.queue.prepare_data("bench.peers.rq.deliver", (number, note(number)))
                for number in numbers
            ]
        )


def work(url: str, settings: dict[str, Any]) -> None:
    """Be a worker."""
    import rq  # type: ignore[import-not-found]

    import bench.peers.rq as handlers  # by the name under which jobs are enqueued

    journal = handlers.journal = Journal()
    kind = getattr(rq, settings["worker"])

    class Gated(kind):  # type: ignore[misc, valid-type]
        """Waits when it is registered and listens for commands; the loop starts next."""

        def bootstrap(self, *arguments: Any, **named: Any) -> None:
            super().bootstrap(*arguments, **named)
            journal.begin()

    queue = _queue(url)
    Gated([queue], connection=queue.connection).work(logging_level=logging.ERROR)


def _queue(url: str) -> Any:
    from redis import Redis  # type: ignore[import-not-found]
    from rq import Queue

    return Queue(connection=Redis.from_url(url))


if __name__ == "__main__":
    Program(producer=producer, work=work).run()

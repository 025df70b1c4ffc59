"""Dramatiq on Redis: jobs in a list, taken by a thread that hands them to others."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.peers.environment import PythonEnvironment
from bench.peers.peer import Configuration, Peer
from bench.peers.program import Producer, Program, note
from bench.peers.tally import Journal

PREFETCH = "dramatiq_queue_prefetch"

BEST = Configuration(
    name="best",
    why="as the default, with dramatiq_queue_prefetch, 1,000 here; one or two threads a process "
    "were slower",
    processes=2,
    jobs=20_000,
    settings={"threads": 8, "prefetch": 1_000},
)

PEER = Peer(
    name="dramatiq",
    environment=PythonEnvironment("dramatiq"),
    broker="redis",
    unfinished="hlen dramatiq:default.msgs",
    order="none",
    loss="put back into the queue when the worker has not been heard of for a minute",
    configurations=(
        Configuration(
            name="default",
            why="what its command line starts: a process for each core (here two), 8 threads each",
            processes=2,
            jobs=10_000,
            settings={"threads": 8},
        ),
        BEST,
        replace(BEST, name="best-always", fsync="always"),
    ),
)


@contextlib.asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    """Connect."""
    _, deliver = _broker(url, None)
    yield Sender(deliver)


@dataclass(frozen=True, slots=True)
class Sender:
    """What sends; there is no way to send many at once."""

    deliver: Any

    async def one(self, number: int) -> None:
        """Send one job."""
        self.deliver.send(number, note(number))

    async def many(self, numbers: Sequence[int], keys: int) -> None:
        """Send jobs one after another."""
        for number in numbers:
            await self.one(number)


def work(url: str, settings: dict[str, Any]) -> None:
    """Be a worker: the processes that its command line would start are started by the bench."""
    if prefetch := settings.get("prefetch"):
        os.environ[PREFETCH] = str(prefetch)  # read when it is imported
    from dramatiq import Worker  # type: ignore[import-not-found]

    journal = Journal()
    broker, _ = _broker(url, journal)
    worker = Worker(broker, worker_threads=settings["threads"])
    _connect(broker, settings["threads"] + 2)  # a thread takes jobs, another those with a delay
    journal.begin()
    worker.start()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


def _broker(url: str, journal: Journal | None) -> tuple[Any, Any]:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]

    broker = RedisBroker(url=url)
    dramatiq.set_broker(broker)

    @dramatiq.actor(actor_name="deliver")  # type: ignore[untyped-decorator]
    def deliver(number: int, note: str) -> None:
        assert journal is not None
        journal.ran(number)

    return broker, deliver


def _connect(broker: Any, connections: int) -> None:
    """Open as many connections as there will be threads; the threads start with the work."""
    pool = broker.client.connection_pool
    opened = [pool.get_connection() for _ in range(connections)]
    for connection in opened:
        pool.release(connection)


if __name__ == "__main__":
    Program(producer=producer, work=work).run()

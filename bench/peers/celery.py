"""Celery on Redis: jobs in a list, taken ahead of time and handed to forked processes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.peers.environment import PythonEnvironment
from bench.peers.peer import Configuration, Peer
from bench.peers.program import Producer, Program, note
from bench.peers.tally import Journal

BEST = Configuration(
    name="best",
    why="its guide 'Optimizing': for many short jobs a large worker_prefetch_multiplier, 128; its "
    "guide 'Concurrency': a worker of the pool solo for each core, which took less of the "
    "processor than forked processes and threads; no gossip, mingle or heartbeats",
    processes=2,
    jobs=5_000,
    settings={
        "worker_prefetch_multiplier": 128,
        "options": ["-P", "solo", "--without-gossip", "--without-mingle", "--without-heartbeat"],
    },
)

PEER = Peer(
    name="celery",
    environment=PythonEnvironment("celery"),
    broker="redis",
    unfinished="llen celery\nhlen unacked",
    order="none",
    loss="lost: a job is acknowledged before it runs, if task_acks_late is not set",
    configurations=(
        Configuration(
            name="default",
            why="one worker with a forked process for each core, four jobs taken ahead for each",
            jobs=5_000,
        ),
        BEST,
        replace(BEST, name="best-always", fsync="always"),
    ),
)


@contextlib.asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    """Connect."""
    app, deliver = _app(url, None)
    with app.producer_pool.acquire(block=True) as connected:
        yield Publisher(deliver, connected)


@dataclass(frozen=True, slots=True)
class Publisher:
    """What publishes, over one connection; there is no way to publish many at once."""

    deliver: Any
    connected: Any

    async def one(self, number: int) -> None:
        """Publish one job."""
        self.deliver.apply_async((number, note(number)), producer=self.connected)

    async def many(self, numbers: Sequence[int], keys: int) -> None:
        """Publish jobs one after another."""
        for number in numbers:
            await self.one(number)


def work(url: str, settings: dict[str, Any]) -> None:
    """Be a worker, which forks."""
    from celery import bootsteps  # type: ignore[import-not-found]

    journal = Journal()
    app, _ = _app(url, journal)
    options = settings.pop("options", [])
    app.conf.update(settings)

    class Gate(bootsteps.StartStopStep):  # type: ignore[misc]
        """Waits when the processes are forked and connected; the loop that polls starts last."""

        requires = ("celery.worker.consumer.tasks:Tasks",)

        def start(self, parent: Any) -> None:
            journal.begin()

    app.steps["consumer"].add(Gate)
    app.worker_main(["worker", "--loglevel", "ERROR", *options])


def _app(url: str, journal: Journal | None) -> tuple[Any, Any]:
    from celery import Celery

    app = Celery("bench", broker=url)

    @app.task(name="deliver", ignore_result=True)  # type: ignore[untyped-decorator]
    def deliver(number: int, note: str) -> None:
        assert journal is not None
        journal.ran(number)

    return app, deliver


if __name__ == "__main__":
    Program(producer=producer, work=work).run()

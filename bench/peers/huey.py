"""Huey, on Redis and on SQLite: a job is taken out of its list or table, then run."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.peers.environment import PythonEnvironment
from bench.peers.peer import Configuration, Peer
from bench.peers.program import Producer, Program, note
from bench.peers.tally import Journal

LOSS = "lost: a job is taken out of the queue before it runs"

DEFAULT = Configuration(name="default", why="one consumer with one thread", jobs=8_000)
BEST = Configuration(
    name="best",
    why="its guide 'Consuming Tasks': worker type process for work that the processor does, one "
    "for each core; no periodic jobs to look for",
    jobs=12_000,
    settings={"workers": 2, "worker_type": "process", "periodic": False},
)

ON_REDIS = Peer(
    name="huey-redis",
    environment=PythonEnvironment("huey"),
    broker="redis",
    unfinished="llen huey.redis.bench",
    order="none with more than one worker",
    loss=LOSS,
    configurations=(DEFAULT, BEST, replace(BEST, name="best-always", fsync="always")),
)

ON_SQLITE = Peer(
    name="huey-sqlite",
    environment=PythonEnvironment("huey"),
    broker="sqlite",
    unfinished="select count(*) from task",
    order="none with more than one worker",
    loss=LOSS,
    configurations=(
        replace(DEFAULT, jobs=12_000),
        replace(
            BEST,
            why=BEST.why + "; it polls, first after 1 ms instead of 100 and at most 10 ms later",
            jobs=12_000,
            settings={**BEST.settings, "initial_delay": 0.001, "max_delay": 0.01},
        ),
    ),
)


@contextlib.asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    """Connect."""
    _, deliver = _huey(url, None)
    yield Caller(deliver)


@dataclass(frozen=True, slots=True)
class Caller:
    """What enqueues; there is no way to enqueue many at once."""

    deliver: Any

    async def one(self, number: int) -> None:
        """Enqueue one job."""
        self.deliver(number, note(number))

    async def many(self, numbers: Sequence[int], keys: int) -> None:
        """Enqueue jobs one after another."""
        for number in numbers:
            await self.one(number)


def work(url: str, settings: dict[str, Any]) -> None:
    """Be a consumer."""
    journal = Journal()
    huey, _ = _huey(url, journal)
    consumer = huey.create_consumer(**settings)

    @huey.on_startup()  # type: ignore[untyped-decorator]
    def begin() -> None:
        """Connect and wait, in each thread or process that will run jobs."""
        huey.pending_count()
        journal.begin(among=consumer.workers)

    consumer.run()


def _huey(url: str, journal: Journal | None) -> tuple[Any, Any]:
    from huey import RedisHuey, SqliteHuey  # type: ignore[import-not-found]

    if url.startswith("redis:"):
        huey = RedisHuey("bench", url=url)
    else:
        huey = SqliteHuey("bench", filename=url.removeprefix("sqlite:///"), fsync=True)

    @huey.task(name="deliver")  # type: ignore[untyped-decorator]
    def deliver(number: int, note: str) -> None:
        assert journal is not None
        journal.ran(number)

    return huey, deliver


if __name__ == "__main__":
    Program(producer=producer, work=work).run()

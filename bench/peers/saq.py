"""SAQ on Redis: jobs in a list and a key each, run on an event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.peers.environment import PythonEnvironment
from bench.peers.peer import Configuration, Peer
from bench.peers.program import Producer, Program, note
from bench.peers.tally import Tally

BEST = Configuration(
    name="best",
    why="its README: hiredis, a process for each core (--workers); 10 at once in each, as 20, 50 "
    "and 100 were slower",
    processes=2,
    jobs=6_000,
    settings={"concurrency": 10},
)

PEER = Peer(
    name="saq",
    environment=PythonEnvironment("saq"),
    broker="redis",
    unfinished="zcard saq:default:incomplete",
    order="none",
    loss="found by a sweep after its timeout, and retried if retries are set",
    configurations=(
        Configuration(name="default", why="one process, concurrency=10", jobs=5_000),
        BEST,
        replace(BEST, name="best-always", fsync="always"),
    ),
)


@contextlib.asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    """Connect."""
    from saq import Queue  # type: ignore[import-not-found]

    queue = Queue.from_url(url)
    await queue.connect()
    try:
        yield Enqueuer(queue)
    finally:
        await queue.disconnect()


@dataclass(frozen=True, slots=True)
class Enqueuer:
    """What enqueues; there is no way to enqueue many at once, but many can at the same time."""

    queue: Any

    async def one(self, number: int) -> None:
        """Enqueue one job."""
        await self.queue.enqueue("deliver", number=number, note=note(number))

    async def many(self, numbers: Sequence[int], keys: int) -> None:
        """Enqueue jobs at the same time; the queue lets twenty through."""
        await asyncio.gather(*(self.one(number) for number in numbers))


async def work(url: str, settings: dict[str, Any], tally: Tally) -> None:
    """Be a worker."""
    from saq import Queue, Worker

    async def deliver(ctx: Any, *, number: int, note: str) -> None:
        tally.ran(number)

    async def begin(ctx: Any) -> None:
        await tally.begin()

    queue = Queue.from_url(url)
    await queue.connect()
    worker = Worker(queue, functions=[("deliver", deliver)], startup=begin, **settings)
    # Asked at the same time, so that there is a connection for each job that may run at once.
    await asyncio.gather(*(queue.count("queued") for _ in range(worker.concurrency)))
    await worker.start()


if __name__ == "__main__":
    Program(producer=producer, work=work).run()

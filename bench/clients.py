"""The clients that both sides get: a consumer that claims and settles, a producer that fills."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.loads import Load, Taken, numbers_of
from bench.processes import Shared, add, begin
from bench.sides import Batch, Side, SideName, side_at
from bench.sizes import BATCH

# A consumer that found nothing waits, longer each time, as a worker without a wake-up would.
PAUSE_SECONDS_FIRST = 0.001
PAUSE_SECONDS_MAX = 0.032
DRAIN_SECONDS_MAX = 240.0

WARM = "warm"
WARM_BATCHES = 8  # two for each of the consumers' connections


@dataclass(slots=True)
class Drained:
    """What the consumers of one process did."""

    started_at: float
    ended_at: float = 0.0
    batches: list[tuple[float, Batch]] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)


async def fill(url: str, side_name: SideName, load: Load) -> None:
    """Make a side's tables and enqueue a load, in order, in the batches that are measured."""
    side = side_at(side_name, url)
    await side.create()
    await side.open(1)
    for drafts in load.batches():
        await side.enqueue(drafts)
    for _ in range(WARM_BATCHES):
        await side.enqueue(load.drafts(0, BATCH), queue=WARM)
    await side.close()


async def drain(
    shared: Shared, side_name: SideName, url: str, total: int, connections: int, name: str
) -> Drained:
    """Claim and settle, together with other processes, until all of a load is settled."""
    side = side_at(side_name, url)
    workers = [f"{name}-{number}" for number in range(connections)]
    await open_warm(side, workers)
    drained = Drained(started_at=begin(shared))
    await asyncio.gather(*(_consume(side, worker, shared, total, drained) for worker in workers))
    for received_at, batch in drained.batches:  # off the clock
        drained.taken.append((received_at, numbers_of(side.jobs(batch))))
    drained.batches.clear()
    await side.close()
    return drained


async def consume(
    shared: Shared, side_name: SideName, url: str, connections: int
) -> list[tuple[float, int]]:
    """Claim and settle until told to stop; return when how many jobs were settled."""
    side = side_at(side_name, url)
    workers = [f"consumer-{number}" for number in range(connections)]
    await open_warm(side, workers)
    begin(shared)
    settled: list[tuple[float, int]] = []

    async def one(worker: str) -> None:
        pause = PAUSE_SECONDS_FIRST
        while not shared.stopped.is_set():
            batch = await side.claim(worker)
            if not batch.size:
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_SECONDS_MAX)
                continue
            pause = PAUSE_SECONDS_FIRST
            await side.settle(batch, worker)
            settled.append((time.monotonic(), batch.size))
            add(shared.settled, batch.size)

    await asyncio.gather(*map(one, workers))
    await side.close()
    return settled


async def produce(
    shared: Shared, side_name: SideName, url: str, load: Load, backlog_max: int
) -> int:
    """Enqueue batch after batch, as long as the backlog stays within its bound."""
    side = side_at(side_name, url)
    await side.open(1)
    begin(shared)
    number = shared.enqueued.value
    while not shared.stopped.is_set():
        if shared.enqueued.value - shared.settled.value > backlog_max - BATCH:
            await asyncio.sleep(0.002)
            continue
        await side.enqueue(load.drafts(number, BATCH))
        number += BATCH
        add(shared.enqueued, BATCH)
    await side.close()
    return number


async def open_warm(side: Side, workers: Sequence[str]) -> None:
    """Connect, and let every connection make its plans before the clock runs."""
    await side.open(len(workers))
    for _ in range(2):
        await asyncio.gather(*(_warm(side, worker) for worker in workers))


async def _warm(side: Side, worker: str) -> None:
    batch = await side.claim(worker, queue=WARM)
    if batch.size:
        await side.settle(batch, worker)


async def _consume(side: Side, worker: str, shared: Shared, total: int, drained: Drained) -> None:
    pause = PAUSE_SECONDS_FIRST
    while shared.settled.value < total:
        batch = await side.claim(worker)
        received_at = time.monotonic()
        if not batch.size:
            if received_at - drained.started_at > DRAIN_SECONDS_MAX or shared.stopped.is_set():
                raise AssertionError(f"{shared.settled.value} of {total} jobs came out")
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_SECONDS_MAX)
            continue
        pause = PAUSE_SECONDS_FIRST
        while batch.size:
            settling, batch = batch, await side.turn(batch, worker)
            drained.ended_at = time.monotonic()
            drained.batches.append((received_at, settling))
            received_at = drained.ended_at
            add(shared.settled, settling.size)

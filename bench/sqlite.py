"""The SQLite store: draining against a plain loop, and many producers against one."""

from __future__ import annotations

import asyncio
import time

from bench.clients import fill
from bench.compare import SIDES, Bench, in_turn, rated
from bench.files import empty_file
from bench.loads import Load, Taken, check_complete, numbers_of
from bench.sides import Batch, Ours, SideName, side_at
from bench.sizes import PRODUCERS
from bench.table import Bar, Row


def sqlite_drain(bench: Bench) -> list[Row]:
    """Drain jobs without keys with one consumer, which is what suits the reference best."""
    load = Load("sqlite-drain", bench.sizes.sqlite_jobs)

    def measure(side: SideName) -> float:
        with empty_file() as path:
            url = f"sqlite:///{path}"
            asyncio.run(fill(url, side, load))
            return load.jobs / asyncio.run(_drain(url, side, load))

    rates = in_turn(bench, measure, (*SIDES, "apart"))
    ours, apart, reference = rates["ours"], rates["apart"], rates["reference"]
    note = "settle and claim in two transactions"
    return [
        rated(load.name, Bar(2), ours, reference, jobs=load.jobs),
        rated(f"{load.name}-apart", Bar(2, counts=False), apart, reference, note=note),
    ]


def sqlite_producers(bench: Bench) -> list[Row]:
    """Enqueue one job a call, with many callers at once and with one alone."""
    many: list[float] = []
    one: list[float] = []
    for run in range(bench.sizes.runs):
        for producers, rates in ((1, one), (PRODUCERS, many)):
            bench.say(f"{producers} producers, run {run + 1} of {bench.sizes.runs}")
            with empty_file() as path:
                url = f"sqlite:///{path}"
                rates.append(asyncio.run(_produce(url, producers, bench.sizes.producer_seconds)))
    note = f"{PRODUCERS} callers of one store; the reference is one caller of ours"
    return [rated("sqlite-producers", Bar(5), many, one, note=note)]


async def _drain(url: str, side_name: SideName, load: Load) -> float:
    """Return the seconds from the first claim to the last settle."""
    side = side_at(side_name, url)
    await side.open(1)
    batches: list[tuple[float, Batch]] = []
    settled = 0
    began = ended = time.monotonic()
    batch = await side.claim("bench")
    while batch.size:
        batches.append((time.monotonic(), batch))
        settled += batch.size
        batch = await side.turn(batch, "bench")
        ended = time.monotonic()
    if settled != load.jobs:
        raise AssertionError(f"{settled} of {load.jobs} jobs came out")
    taken: list[Taken] = [(at, numbers_of(side.jobs(batch))) for at, batch in batches]
    check_complete(load, taken)
    await side.close()
    return ended - began


async def _produce(url: str, producers: int, seconds: float) -> float:
    """Return the jobs a second that were committed, one a call."""
    side = Ours(url)
    await side.create()
    await side.open(1)
    load = Load("producers", 0)
    accepted = 0
    started_at = time.monotonic()

    async def produce(producer: int) -> None:
        nonlocal accepted
        while time.monotonic() < started_at + seconds:
            await side.enqueue(load.drafts(producer, 1))
            accepted += 1

    await asyncio.gather(*(produce(producer) for producer in range(producers)))
    took = time.monotonic() - started_at
    (queue,) = await side.store.queues()
    if queue.waiting != accepted:
        raise AssertionError(f"{accepted} jobs were accepted, and {queue.waiting} wait")
    await side.close()
    return accepted / took

"""What a claim and a look at the queue cost when very much is waiting, on PostgreSQL."""

from __future__ import annotations

import asyncio
import statistics
import time

from bench.clients import fill
from bench.compare import Bench
from bench.loads import QUEUE, Load
from bench.server import empty_database, tidy
from bench.sides import Ours
from bench.sizes import CLAIM_AT_DEPTH
from bench.table import Bar, Row


def depth(bench: Bench) -> list[Row]:
    """Claim from a deep and a shallow queue in turn, then ask the deep one for its depth."""
    sizes = bench.sizes
    deep, shallow = Load("deep", sizes.depth_deep), Load("shallow", sizes.depth_shallow)
    with empty_database(bench.server) as deep_url, empty_database(bench.server) as shallow_url:
        bench.say(f"enqueueing {deep.jobs:,} jobs")
        for url, load in ((deep_url, deep), (shallow_url, shallow)):
            asyncio.run(fill(url, "ours", load))
            tidy(url)
        bench.say("claiming")
        at_deep, at_shallow = asyncio.run(
            _claims(deep_url, shallow_url, deep.jobs, sizes.depth_claims)
        )
        bench.say("asking for the depth")
        looks = asyncio.run(_looks(deep_url, deep.jobs, sizes.status_reads))
    return [_claim_row(at_deep, at_shallow, sizes.depth_shallow), _look_row(looks)]


def _claim_row(deep: list[float], shallow: list[float], shallow_jobs: int) -> Row:
    slow, quick = statistics.median(deep), statistics.median(shallow)
    return Row(
        name="claim-at-depth",
        ours=f"{slow:.2f} ms",
        reference=f"{quick:.2f} ms",
        ratio=slow / quick,
        bar=Bar(at_most=1.5),
        note=f"the reference is our own claim with {shallow_jobs:,} jobs waiting",
        measured={"ours": deep, "reference": shallow, "unit": "ms"},
    )


def _look_row(looks: list[float]) -> Row:
    looks = sorted(looks)
    middle = statistics.median(looks)
    return Row(
        name="status-at-depth",
        ours=f"{middle:.2f} ms",
        reference="",
        ratio=middle,
        bar=Bar(at_most=10, unit=" ms"),
        note=f"the median of {len(looks)}; the slowest took {looks[-1]:.2f} ms",
        measured={"ours": looks, "unit": "ms"},
    )


async def _claims(
    deep_url: str, shallow_url: str, deep_jobs: int, claims: int
) -> tuple[list[float], list[float]]:
    """Time claims only. What is claimed is settled and replaced, so that the depth stays."""
    deep, shallow = Ours(deep_url), Ours(shallow_url)
    took: tuple[list[float], list[float]] = ([], [])
    number = deep_jobs
    for side in (deep, shallow):
        await side.open(1)
        await _claim_once(side, number)  # off the clock: the connection prepares its statements
    for _ in range(claims):
        for side, times in zip((deep, shallow), took, strict=True):
            times.append(await _claim_once(side, number) * 1000)
            number += CLAIM_AT_DEPTH
    for side in (deep, shallow):
        await side.close()
    return took


async def _claim_once(side: Ours, number: int) -> float:
    began = time.perf_counter()
    batch = await side.claim("bench", jobs_max=CLAIM_AT_DEPTH)
    took = time.perf_counter() - began
    if batch.size != CLAIM_AT_DEPTH:
        raise AssertionError(f"a claim of {CLAIM_AT_DEPTH} got {batch.size}")
    await side.settle(batch, "bench")
    await side.enqueue(Load("more", 0).drafts(number, CLAIM_AT_DEPTH))
    return took


async def _looks(url: str, waiting: int, reads: int) -> list[float]:
    side = Ours(url)
    await side.open(1)
    took = []
    for _ in range(reads):
        began = time.perf_counter()
        queue = next(one for one in await side.store.queues() if one.name == QUEUE)
        took.append((time.perf_counter() - began) * 1000)
        if queue.waiting != waiting or queue.oldest_at is None:
            raise AssertionError(f"{waiting} jobs wait, and the store says {queue.waiting}")
    await side.close()
    return took

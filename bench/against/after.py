"""How long jobs that wait for others hold up the work they wait for, on PostgreSQL.

1,000 jobs and 10,000, leased two by two over 20 connections, are settled while one job waits for
all of them; 10,000 steps in 100 layers, each after three of the layer before, go through the turns
of one worker.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from contextlib import suppress
from typing import Any

from inturn.model.errors import BadInput
from inturn.model.job import NewJob
from inturn.policy.settlement import Settlement
from inturn.store.address import connect

LEASED = (1_000, 10_000)
CONNECTIONS = 20
LAYERS = 100
STEPS = 100


async def settled(store: Any, queue: str, leased: int, *, is_awaited: bool) -> float:
    """Lease jobs two by two, settle them, and return how long that took, in milliseconds."""
    await store.enqueue([NewJob(kind="k", queue=queue) for _ in range(leased)])
    claims: list[Any] = []

    async def claim() -> None:
        while found := await store.claim(queue, jobs_max=2, worker="w", lease_seconds=600):
            claims.extend(found)

    await asyncio.gather(*(claim() for _ in range(CONNECTIONS)))
    if is_awaited:
        ids = frozenset(job.id for one in claims for job in one.jobs)
        await store.enqueue([NewJob(kind="k", queue="later", after=ids)])

    async def work() -> None:
        while claims:
            await store.turn([Settlement.done(claims.pop())], queue, jobs_max=2, worker="w")

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    while is_awaited and not await store.claim("later", jobs_max=1, worker="w"):
        pass
    return (time.perf_counter() - began) * 1000


async def stepped(store: Any) -> float:
    """Accept the steps in one batch, run them, and return how long that took."""
    chance = random.Random(1)
    jobs: list[NewJob] = []
    layer: list[NewJob] = []
    for _ in range(LAYERS):
        before = [job.id for job in layer]
        layer = [
            NewJob(
                kind="k", queue="steps", after=frozenset(chance.sample(before, 3) if before else [])
            )
            for _ in range(STEPS)
        ]
        jobs += layer
    began = time.perf_counter()
    await store.enqueue(jobs)
    done = 0
    settlements: list[Settlement] = []
    while done < len(jobs):
        claims = await store.turn(settlements, "steps", jobs_max=STEPS, worker="w")
        settlements = [Settlement.done(one) for one in claims]
        done += sum(len(one.jobs) for one in claims)
    await store.settle(settlements, worker="w")
    return (time.perf_counter() - began) * 1000


async def main(url: str) -> dict[str, float]:
    """Measure each, on one store."""
    store = connect(f"{url}?connections_max={CONNECTIONS}")
    await store.migrate()
    await store.open()
    found: dict[str, float] = {}
    for leased in LEASED:
        found[f"{leased:,} leased jobs settled"] = await settled(
            store, f"alone {leased}", leased, is_awaited=False
        )
        with suppress(BadInput):  # a version of before lets a job wait for 1,000
            found[f"{leased:,} while one job waits for all"] = await settled(
                store, f"awaited {leased}", leased, is_awaited=True
            )
    found["10,000 steps in 100 layers"] = await stepped(store)
    await store.close()
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))

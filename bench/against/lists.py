"""How long a look at one job takes while others list jobs by state, of 200,000 that are kept."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from typing import Any

from inturn.model.job import JobState, NewJob
from inturn.policy.settlement import Settlement
from inturn.store.address import connect

JOBS = 200_000
BATCH = 1_000
LOOKS = 200
PAUSE_SECONDS = 0.005  # between two looks


async def main(url: str) -> dict[str, float]:
    """Fill a store, half of it done, and look at one job beside lists."""
    store = connect(url)
    await store.migrate()
    await store.open()
    ticket: Any = None
    for _ in range(0, JOBS, BATCH):
        [*_, ticket] = await store.enqueue([NewJob(kind="k") for _ in range(BATCH)])
    done = 0
    while done < JOBS / 2:
        claims = await store.claim("default", jobs_max=BATCH, worker="w")
        await store.settle([Settlement.done(one) for one in claims], worker="w")
        done += sum(len(one.jobs) for one in claims)
    ended = asyncio.Event()

    async def listing(state: JobState) -> None:
        while not ended.is_set():
            await store.jobs(state=state, kind="none", rows_max=100)

    listings = [asyncio.create_task(listing(state)) for state in (JobState.DONE, JobState.RETRYING)]
    looks: list[float] = []
    for _ in range(LOOKS):
        began = time.perf_counter()
        await store.job(ticket.id)
        looks.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE_SECONDS)
    ended.set()
    await asyncio.gather(*listings)
    await store.close()
    return {"job() beside lists": statistics.median(looks) * 1000}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))

"""How long an enqueue waits at most while 10,000 done jobs with payloads of 10 KB are pruned."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from inturn.model.job import NewJob
from inturn.model.lane import QueueSettings
from inturn.policy.settlement import Settlement
from inturn.store.address import connect

JOBS = 10_000
BATCH = 500
PAYLOAD = json.dumps("x" * 10_000)
PAUSE_SECONDS = 0.002  # between two enqueues


async def main(url: str) -> dict[str, float]:
    """Fill a store with finished jobs, then prune it while somebody enqueues."""
    store = connect(url)
    await store.migrate()
    await store.open()
    await store.configure("default", QueueSettings(keep_done_seconds=0.0))
    for _ in range(0, JOBS, BATCH):
        await store.enqueue([NewJob(kind="k", payload=PAYLOAD) for _ in range(BATCH)])
    while claims := await store.claim("default", jobs_max=BATCH, worker="w"):
        await store.settle([Settlement.done(one) for one in claims], worker="w")
    waits: list[float] = []
    pruning = asyncio.create_task(store.prune())
    while not pruning.done():
        began = time.perf_counter()
        await store.enqueue([NewJob(kind="k", queue="other")])
        waits.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE_SECONDS)
    assert (await pruning).jobs == JOBS
    await store.close()
    return {"longest enqueue beside a prune": max(waits) * 1000}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))

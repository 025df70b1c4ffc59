"""How many jobs with a dedupe key 64 producers push a second, one each at a time: PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from inturn.model.job import NewJob
from inturn.store.address import connect

PRODUCERS = 64
PUSHES = 50


async def main(url: str) -> dict[str, float]:
    """Push, and return how many a second."""
    store = connect(url)
    await store.migrate()
    await store.open()

    async def push(producer: int) -> None:
        for number in range(PUSHES):
            await store.enqueue([NewJob(kind="k", dedupe=f"{producer} {number}")])

    began = time.perf_counter()
    await asyncio.gather(*(push(number) for number in range(PRODUCERS)))
    seconds = time.perf_counter() - began
    await store.close()
    return {"64 producers with dedupe keys": PRODUCERS * PUSHES / seconds}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))

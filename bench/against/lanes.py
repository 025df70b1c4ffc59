"""What a look at a queue of 1,000 lanes with work costs, and of 100,000, on PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

from inturn.model.job import NewJob
from inturn.model.lane import QueueSettings
from inturn.store.address import connect

BATCH = 5_000
LOOKS = 50


async def main(url: str) -> dict[str, float]:
    """Look at a queue of 1,000 lanes, add 99,000 and look again; return medians in milliseconds."""
    store = connect(url)
    await store.migrate()
    await store.open()
    await store.configure("many", QueueSettings(depth_max=10_000_000))
    looks: dict[str, Callable[[], Awaitable[object]]] = {
        "queues()": store.queues,
        "an enqueue with depth_max": lambda: store.enqueue(
            [NewJob(kind="k", queue="many", key="0")]
        ),
        "advance_gate": lambda: store.advance_gate("many"),
    }
    found: dict[str, float] = {}
    made = 0
    for lanes in (1_000, 100_000):
        while made < lanes:
            count = min(BATCH, lanes - made)
            await store.enqueue(
                [NewJob(kind="k", queue="many", key=str(made + n)) for n in range(count)]
            )
            made += count
        for name, look in looks.items():
            seconds: list[float] = []
            for _ in range(LOOKS):
                began = time.perf_counter()
                await look()
                seconds.append(time.perf_counter() - began)
            found[f"{name}, {lanes:,} lanes"] = statistics.median(seconds) * 1000
    await store.close()
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))

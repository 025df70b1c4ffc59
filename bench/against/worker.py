"""Jobs a second through one worker in one process, of handlers that do nothing."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time

import inturn

JOBS = 60_000
BATCH = 1_000
KEYS = 1_000


async def measure(url: str, *, is_async: bool, is_keyed: bool) -> float:
    """Fill a queue of its own, then let one worker empty it."""
    app = inturn.App(url)
    queue = f"{'async' if is_async else 'def'}-{'keyed' if is_keyed else 'open'}"
    loop = asyncio.get_running_loop()
    began: list[float] = []
    ran, ended = itertools.count(1), asyncio.Event()

    def count() -> None:
        number = next(ran)
        if number == 1:
            began.append(time.perf_counter())
        elif number == JOBS:
            began.append(time.perf_counter())
            loop.call_soon_threadsafe(ended.set)

    async def on_loop(number: int) -> None:
        count()

    def on_thread(number: int) -> None:
        count()

    job = app.job(queue=queue, kind=queue)(on_loop if is_async else on_thread)
    async with app:
        for first in range(0, JOBS, BATCH):
            await app.submit_many(
                [
                    (job.using(key=f"key-{number % KEYS}") if is_keyed else job).call(number)
                    for number in range(first, first + BATCH)
                ]
            )
        working = asyncio.ensure_future(inturn.Worker(app).run())
        await asyncio.wait(
            [working, asyncio.ensure_future(ended.wait())], return_when="FIRST_COMPLETED"
        )
        await asyncio.sleep(0.2)  # so that the last are settled
        working.cancel()
        await asyncio.wait([working])
    return JOBS / (began[1] - began[0])


async def main(url: str) -> dict[str, float]:
    """Measure both kinds of handlers, with keys and without."""
    await inturn.App(url).migrate()
    found = {}
    for is_async in (True, False):
        for is_keyed in (False, True):
            name = ("async" if is_async else "def") + (" keyed" if is_keyed else "")
            found[name] = await measure(url, is_async=is_async, is_keyed=is_keyed)
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))

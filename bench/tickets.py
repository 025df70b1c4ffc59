"""How long after a job has ended in another process ``ticket.result()`` returns, on an idle worker;
also while 10,000 other tickets of the same process wait.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time

from bench.compare import Bench
from bench.crew import crew
from bench.latency import PAUSE_SECONDS, WARM_JOBS
from bench.peers import ours
from bench.peers.program import note
from bench.places import stores
from bench.table import Bar, Row
from inturn import App

P50_MILLISECONDS_MAX = 5
WAITING = 10_000
RESULT_SECONDS_MAX = 30.0


def tickets(bench: Bench) -> list[Row]:
    """Measure on SQLite, where one who waits looks whether the file has changed, and on PostgreSQL,
    where a notification tells it.
    """
    rows = []
    for name, store in stores(bench).items():
        for waiting in (0, WAITING):
            with store() as url:
                rows.append(_row(name, waiting, bench, url))
    return rows


def _row(store: str, waiting: int, bench: Bench, url: str) -> Row:
    asyncio.run(App(url).migrate())
    command = ours.OURS.work_command([], url, ours.OURS.configurations[0])
    with crew(command, url, 1, keeps_runs=True) as workers:
        workers.go()
        bench.say(f"{bench.sizes.ticket_jobs} jobs, one after another, {waiting:,} waiting")
        heard_at = asyncio.run(_hear(url, bench.sizes.ticket_jobs, waiting))
        ran_at = {number: at for at, number in workers.stop()}
    found = [(at - ran_at[number]) / 1e6 for number, at in enumerate(heard_at)][WARM_JOBS:]
    cut = statistics.quantiles(found, n=100, method="inclusive")
    return Row(
        name=f"tickets-{store}" + "-10000" * bool(waiting),
        ours=f"{cut[49]:.2f} ms",
        reference="",
        ratio=cut[49],
        # The bar is for a ticket alone; with many the figure shows what a look at them all costs.
        bar=Bar(at_most=P50_MILLISECONDS_MAX, unit=" ms", counts=not waiting),
        note=f"{len(found):,} jobs, {waiting:,} others wait; p50; p99 {cut[98]:.1f} ms",
        measured={"milliseconds": found},
    )


async def _hear(url: str, jobs: int, waiting: int) -> list[int]:
    """Submit jobs one by one, and return when the result of each was here."""
    heard_at = []
    async with App(url) as app:
        deliver = app.job(kind=ours.deliver.kind)(ours.deliver.function)
        later = deliver.using(delay=3_600)
        some = await app.submit_many([later.call(n, "") for n in range(waiting)])
        others = [asyncio.create_task(one.result(timeout=3_600)) for one in some]
        for number in range(jobs):
            await asyncio.sleep(random.uniform(*PAUSE_SECONDS))
            ticket = await deliver.submit(number, note(number))
            await ticket.result(timeout=RESULT_SECONDS_MAX)
            heard_at.append(time.monotonic_ns())
        for one in others:
            one.cancel()
        await asyncio.gather(*others, return_exceptions=True)
    return heard_at

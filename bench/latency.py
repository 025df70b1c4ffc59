"""How long after ``submit`` was called a handler starts, in an idle worker of another process."""

from __future__ import annotations

import asyncio
import random
import statistics
import time

from bench.compare import Bench
from bench.crew import Crew, crew
from bench.files import empty_file
from bench.peers import ours
from bench.peers.program import note
from bench.server import empty_database
from bench.table import Bar, Row
from inturn import App

P50_MILLISECONDS_MAX, P99_MILLISECONDS_MAX = 5, 20
PAUSE_SECONDS = (0.03, 0.07)  # uneven, so as not to fall in step with something that polls
WARM_JOBS = 20
RUN_SECONDS_MAX = 30.0


def latency_postgres(bench: Bench) -> list[Row]:
    """Measure on PostgreSQL, where a notification wakes the worker."""
    with empty_database(bench.server) as url:
        return _rows("postgres", _measure(bench, url))


def latency_sqlite(bench: Bench) -> list[Row]:
    """Measure on SQLite, across processes."""
    with empty_file() as path:
        return _rows("sqlite", _measure(bench, f"sqlite:///{path}"))


def _measure(bench: Bench, url: str) -> list[float]:
    """Return the milliseconds of each job, in order."""
    jobs = bench.sizes.latency_jobs
    asyncio.run(App(url).migrate())
    command = ours.OURS.work_command([], url, ours.OURS.configurations[0])
    with crew(command, url, 1, keeps_runs=True) as workers:
        workers.go()
        bench.say(f"{jobs} jobs, one every 50 ms or so")
        called_at = asyncio.run(_submit(url, jobs, workers))
        started_at = {number: at for at, number in workers.stop()}
    return [(started_at[number] - called_at[number]) / 1e6 for number in range(WARM_JOBS, jobs)]


async def _submit(url: str, jobs: int, workers: Crew) -> list[int]:
    app = App(url)
    deliver = app.job(kind=ours.deliver.kind)(ours.deliver.function)
    called_at = []
    async with app:
        for number in range(jobs):
            await asyncio.sleep(random.uniform(*PAUSE_SECONDS))
            text = note(number)
            called_at.append(time.monotonic_ns())
            await deliver.submit(number, text)
        give_up_at = time.monotonic() + RUN_SECONDS_MAX
        while workers.count() < jobs:
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"{workers.count()} of {jobs} jobs were run")
            await asyncio.sleep(0.05)
    return called_at


def _rows(store: str, milliseconds: list[float]) -> list[Row]:
    cut = statistics.quantiles(milliseconds, n=100, method="inclusive")
    note = (
        f"{len(milliseconds):,} jobs; p50 {cut[49]:.1f}, p90 {cut[89]:.1f}, p99 {cut[98]:.1f}, "
        f"longest {max(milliseconds):.1f} ms"
    )
    measured = {"milliseconds": milliseconds}
    return [
        Row(
            name=f"latency-{store}-p{rank}",
            ours=f"{cut[rank - 1]:.2f} ms",
            reference="",
            ratio=cut[rank - 1],
            bar=Bar(at_most=most, unit=" ms"),
            note=note if rank == 50 else f"of the same {len(milliseconds):,} jobs",
            measured=measured if rank == 50 else {},
        )
        for rank, most in ((50, P50_MILLISECONDS_MAX), (99, P99_MILLISECONDS_MAX))
    ]

"""How much memory a worker process takes after very many jobs, and whether it grows."""

from __future__ import annotations

import time
from pathlib import Path

from bench.compare import Bench
from bench.crew import DRAIN_SECONDS_MAX, crew, fill
from bench.peers.ours import OURS
from bench.places import Database
from bench.server import empty_database
from bench.table import Bar, Row

MEGABYTES_MAX = 90
GROWTH_MAX = 1.1
EARLY_PART = 5  # of the jobs, after which memory is looked at first
LOOK_SECONDS = 0.1


def memory(bench: Bench) -> list[Row]:
    """Let one worker process run all jobs; look at its memory after a fifth and at the end."""
    jobs = bench.sizes.memory_jobs
    series: list[tuple[int, float]] = []
    with empty_database(bench.server) as url:
        bench.say(f"submitting {jobs:,} jobs")
        fill(OURS, OURS.environment.install(), Database(url), jobs)
        with crew(OURS.work_command([], url, OURS.configurations[0]), url, 1) as workers:
            (process,) = workers.processes
            give_up_at = workers.go() + DRAIN_SECONDS_MAX
            count = 0
            while count < jobs:
                time.sleep(LOOK_SECONDS)
                workers.insist_on_life()
                if time.monotonic() > give_up_at:
                    raise TimeoutError(f"{count} of {jobs} jobs were run")
                count = workers.count()
                series.append((count, resident_megabytes(process.pid)))
                bench.say(f"{count:,} of {jobs:,} jobs, {series[-1][1]:.0f} MB")
    early = next(megabytes for count, megabytes in series if count >= jobs / EARLY_PART)
    last, most = series[-1][1], max(megabytes for _, megabytes in series)
    note = (
        f"{early:.1f} MB after {jobs // EARLY_PART:,} jobs, {last:.1f} MB after {jobs:,}, "
        f"at most {most:.1f} MB"
    )
    return [
        Row(
            name="worker-memory",
            ours=f"{last:.1f} MB",
            reference="",
            ratio=last,
            bar=Bar(at_most=MEGABYTES_MAX, unit=" MB"),
            note=note,
            measured={"series": series},
        ),
        Row(
            name="worker-memory-growth",
            ours=f"{last:.1f} MB",
            reference=f"{early:.1f} MB",
            ratio=last / early,
            bar=Bar(at_most=GROWTH_MAX),
        ),
    ]


def resident_megabytes(pid: int) -> float:
    """Return how much of a process is in memory, in millions of bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1_024 / 1e6
    raise RuntimeError(f"process {pid} does not say how much memory it takes")

"""The benchmark of the executor: ``python -m bench.executor [--quick] [--json]``.

Jobs that do nothing, over 1,000 keys, each submitted and each result taken, beside the same number
of jobs on a ``ThreadPoolExecutor`` with as many threads as the executor has slots.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import platform
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

from rich.console import Console

import inturn
from bench.compare import Bench, in_turn, rated
from bench.conditions import machine
from bench.sides import SideName
from bench.sizes import FULL, QUICK
from bench.table import Bar, Row, as_json, broken, show, show_conditions

JOBS, JOBS_QUICK = 100_000, 5_000
KEYS = tuple(f"customer-{number}" for number in range(1_000))
SLOTS = 4
BATCH = 500
PLAIN_WIDTH = 110
REQUEST: ContextVar[str] = ContextVar("REQUEST")

Run = Callable[[int], Coroutine[Any, Any, float]]


async def on_loop() -> None:
    """Do nothing, on the loop."""


def on_thread() -> None:
    """Do nothing, on a thread."""


def pool(jobs: int, threads: int = SLOTS) -> float:
    """Submit every job to a pool of threads, take every result; return jobs a second."""
    with ThreadPoolExecutor(threads) as executor:
        began = time.perf_counter()
        futures = [executor.submit(on_thread) for _ in range(jobs)]
        for future in futures:
            future.result()
        return jobs / (time.perf_counter() - began)


def one_by_one(job: Any, slots: int = SLOTS, **settings: Any) -> Run:
    """Submit each job by itself, then await each result."""

    async def run(jobs: int) -> float:
        async with inturn.Executor(slots=slots, queue_size=jobs, **settings) as executor:
            submit, keys = executor.submit, KEYS
            began = time.perf_counter()
            tickets = [await submit(keys[number % 1_000], job) for number in range(jobs)]
            for ticket in tickets:
                await ticket.result()
            return jobs / (time.perf_counter() - began)

    return run


def in_context(run: Run) -> Run:
    """Submit with a context variable set, as inside a web framework."""

    async def run_in_context(jobs: int) -> float:
        REQUEST.set("request-1")
        return await run(jobs)

    return run_in_context


def in_batches(job: object) -> Run:
    """Submit jobs by the batch, then await each result."""

    async def run(jobs: int) -> float:
        async with inturn.Executor(slots=SLOTS, queue_size=jobs) as executor:
            began = time.perf_counter()
            tickets = []
            for first in range(0, jobs, BATCH):
                batch = [(KEYS[number % 1_000], job) for number in range(first, first + BATCH)]
                tickets += await executor.submit_many(batch)
            for ticket in tickets:
                await ticket.result()
            return jobs / (time.perf_counter() - began)

    return run


def compared(
    name: str, bar: Bar, run: Run, *, threads: int = SLOTS, note: str = ""
) -> Callable[[Bench, int], Row]:
    """Return a measurement: one way of running jobs, beside the pool."""

    def measure(bench: Bench, jobs: int) -> Row:
        def rate(side: SideName) -> float:
            gc.collect()
            return asyncio.run(run(jobs)) if side == "ours" else pool(jobs, threads)

        rate("reference"), rate("ours")  # so that neither pays for being first: memory, caches
        rates = in_turn(bench, rate)
        return rated(name, bar, rates["ours"], rates["reference"], note=note)

    return measure


MEASUREMENTS = {
    "async-1000-keys": compared("async-1000-keys", Bar(at_least=3.0), one_by_one(on_loop)),
    "sync-1000-keys": compared("sync-1000-keys", Bar(at_least=1.0), one_by_one(on_thread)),
    "async-batched": compared(
        "async-batched",
        Bar(at_least=3.0, counts=False),
        in_batches(on_loop),
        note=f"submit_many by {BATCH}",
    ),
    "async-one-slot": compared(
        "async-one-slot",
        Bar(at_least=3.0, counts=False),
        one_by_one(on_loop, slots=1),
        threads=1,
        note="one slot beside a pool of one thread, where threads do not fight for Python's lock",
    ),
    "sync-one-slot": compared(
        "sync-one-slot",
        Bar(at_least=1.0, counts=False),
        one_by_one(on_thread, slots=1),
        threads=1,
    ),
    "async-in-context": compared(
        "async-in-context",
        Bar(at_least=3.0, counts=False),
        in_context(one_by_one(on_loop)),
        note="as the first, with a context variable set, so that each job carries a copy",
    ),
    "async-listened-to": compared(
        "async-listened-to",
        Bar(at_least=1.0, counts=False),
        one_by_one(on_loop, listeners=[lambda event: None]),
        note="with a listener, which gets two events a job",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.executor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every run as JSON")
    parser.add_argument("--quick", action="store_true", help="small; the bars are not held")
    asked = parser.parse_args(arguments)
    sizes, jobs = (QUICK, JOBS_QUICK) if asked.quick else (FULL, JOBS)
    found = machine() | {
        "python": platform.python_version(),
        "jobs": f"{jobs:,} that do nothing, {len(KEYS):,} keys, {SLOTS} slots or threads",
        "runs": f"{sizes.runs} of each side in turn, the median counts",
        "quick": sizes.quick,
    }
    console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
    if not asked.json:
        show_conditions(console, found)
    progress = Console(stderr=True)
    rows = []
    for name, measure in MEASUREMENTS.items():

        def say(step: str, name: str = name) -> None:
            if progress.is_terminal:
                progress.print(f"{name}: {step}", style="dim")

        try:
            rows.append(measure(Bench(sizes, say), jobs))
        except Exception as error:
            rows.append(broken(name, error))
    if asked.json:
        print(as_json(found, rows))
    else:
        show(console, rows, quick=sizes.quick)
    broke = any(row.broke for row in rows)
    return int(broke or (any(row.missed for row in rows) and not sizes.quick))


if __name__ == "__main__":
    sys.exit(main())

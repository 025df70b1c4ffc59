"""Limits of a queue over all workers: never exceeded, and how much of them is used; what
``replay="none"`` costs.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import time
from contextlib import AsyncExitStack, suppress
from typing import Any

import psycopg

from bench.compare import Bench, in_turn, rated
from bench.places import stores
from bench.sides import SideName
from bench.table import Bar, Row
from inturn.queue.app import App
from inturn.worker.worker import Worker

RUNNING_MAX = 2
RUNNING_WORKERS = 20
RUNNING_BAR = Bar(0.9)
JOB_SECONDS = 0.05

RATE, RATE_SECONDS = 50, 5.0
RATE_WORKERS = 10
RATE_BAR = Bar(0.95, unit="")
LOOK_SECONDS = 0.5  # at the starts that the store has written down: far less than a window

KEYS = 200
COST = Bar(0, counts=False)


def running_max(bench: Bench) -> list[Row]:
    """Run jobs of 50 ms, of which two may run at once, with 20 workers; beside one worker with two
    slots and no limit.
    """
    rows = []
    for name, store in stores(bench).items():

        def measure(side: SideName, store: Any = store) -> tuple[float, int]:
            with store() as url:
                return asyncio.run(_running(url, side == "ours", bench.sizes.limit_seconds))

        found = in_turn(bench, measure)
        ours = [used for used, _ in found["ours"]]
        reference = [used for used, _ in found["reference"]]
        used, most = statistics.median(ours), max(most for _, most in found["ours"])
        rows.append(
            Row(
                name=f"running-max-{name}",
                ours=f"{used:.3f}",
                reference=f"{statistics.median(reference):.3f}",
                ratio=used / statistics.median(reference),
                bar=RUNNING_BAR,
                note=f"of two slots' time; {RUNNING_WORKERS} workers, {most} at once at most",
                broke=most > RUNNING_MAX,
                measured={"ours": ours, "reference": reference, "most": most},
            )
        )
    return rows


def rate(bench: Bench) -> list[Row]:
    """Start 50 jobs in any 5 s with 10 workers that could start thousands, on both stores."""
    rows = []
    for name, store in stores(bench).items():
        bench.say(name)
        with store() as url:
            rows.append(asyncio.run(_rate(f"rate-{name}", url, bench.sizes.rate_seconds)))
    return rows


def replay_none(bench: Bench) -> list[Row]:
    """Run keyed jobs that do nothing, with ``replay="none"`` and without."""
    rows = []
    for name, store in stores(bench).items():

        def measure(side: SideName, store: Any = store) -> float:
            with store() as url:
                return asyncio.run(_keyed(url, side == "ours", bench.sizes.replay_jobs))

        found = in_turn(bench, measure)
        note = f'no-op jobs of {KEYS} keys, with replay="none" and with "tail"'
        rows.append(
            rated(f"replay-none-{name}", COST, found["ours"], found["reference"], note=note)
        )
    return rows


async def _running(url: str, is_limited: bool, seconds: float) -> tuple[float, int]:
    running = most = done = 0
    has_begun = asyncio.Event()

    async def work() -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        has_begun.set()
        try:
            await asyncio.sleep(JOB_SECONDS)
            done += 1
        finally:
            running -= 1

    jobs = int(2 * seconds * RUNNING_MAX / JOB_SECONDS)
    workers, slots = (RUNNING_WORKERS, 100) if is_limited else (1, RUNNING_MAX)
    limit = RUNNING_MAX if is_limited else None
    async with _workers(url, workers, work, jobs, concurrency=slots, running_max=limit):
        await has_begun.wait()
        began, before = time.monotonic(), done
        await asyncio.sleep(seconds)
        return (done - before) * JOB_SECONDS / (RUNNING_MAX * (time.monotonic() - began)), most


async def _rate(name: str, url: str, seconds: float) -> Row:
    begun: list[float] = []

    async def work() -> None:
        begun.append(time.monotonic())

    starts: dict[float, int] = {}
    jobs = int(2 * RATE * seconds / RATE_SECONDS)
    async with _workers(url, RATE_WORKERS, work, jobs, rate=(RATE, RATE_SECONDS)):
        until = time.monotonic() + seconds + 2 * LOOK_SECONDS
        while time.monotonic() < until:
            await asyncio.sleep(LOOK_SECONDS)
            starts |= await asyncio.to_thread(_starts, url)
    first = min(starts)
    within = sum(count for at, count in starts.items() if at < first + seconds)
    used = within / (RATE * seconds / RATE_SECONDS)
    most = max(
        sum(count for at, count in starts.items() if 0 <= at - one < RATE_SECONDS) for one in starts
    )
    handlers = max(sum(0 <= at - one < RATE_SECONDS for at in begun) for one in begun)
    note = (
        f"{RATE_WORKERS} workers, {seconds:g} s; {most} starts in a window at most, "
        f"{handlers} as handlers saw it"
    )
    return Row(
        name=name,
        ours=f"{used:.3f}",
        reference=f"{RATE}/{RATE_SECONDS:g} s",
        ratio=used,
        bar=RATE_BAR,
        note=note,
        broke=max(most, handlers) > RATE,
        measured={"used": used, "most": most, "handlers": handlers},
    )


def _starts(url: str) -> dict[float, int]:
    """Return when jobs were started lately, as the store has it, and how many."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as file:
            found = file.execute("select started_at, jobs from start")
            return {at / 1e6: jobs for at, jobs in found}
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select extract(epoch from started_at)::float8, jobs from inturn.start"
        )
        return dict(rows.fetchall())


class _workers:  # noqa: N801
    """Workers of an app each, and so with connections of their own, while inside."""

    def __init__(
        self,
        url: str,
        workers: int,
        work: Any,
        jobs: int,
        *,
        concurrency: int = 100,
        **settings: Any,
    ) -> None:
        self._jobs, self._concurrency = jobs, concurrency
        self._apps = [App(url) for _ in range(workers)]
        for app in self._apps:
            app.queue("limited", **settings)
            app.job(queue="limited")(work)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> None:
        await self._apps[0].migrate()
        work = next(iter(self._apps[0].jobs.values()))
        await self._apps[0].submit_many([work.call() for _ in range(self._jobs)])
        for app in self._apps:
            await self._stack.enter_async_context(app)
            worker = Worker(app, concurrency=self._concurrency)
            running = asyncio.create_task(worker.run())
            self._stack.push_async_callback(_end, worker, running)

    async def __aexit__(self, *ended: Any) -> None:
        await self._stack.aclose()


async def _end(worker: Worker, running: asyncio.Task[None]) -> None:
    worker.stop_now()
    with suppress(asyncio.CancelledError):
        await running


async def _keyed(url: str, is_none: bool, jobs: int) -> float:
    """Return how many keyed jobs a worker does in a second."""
    app = App(url)
    app.queue("keyed", replay="none" if is_none else "tail")

    @app.job(queue="keyed")
    async def nothing(number: int) -> None: ...

    await app.migrate()
    async with app:
        for at in range(0, jobs, 10_000):
            await app.submit_many(
                [nothing.using(key=str(n % KEYS)).call(number=n) for n in range(at, at + 10_000)]
            )
        began = time.perf_counter()
        await Worker(app).run(until_empty=True)
        return jobs / (time.perf_counter() - began)

"""Groups beside plain jobs of the engine: ``python -m bench.groups [--layers 100] [--wide 100]``.

The same graph twice, in layers, each step after three of the layer before: as jobs with ``after``,
and as a group whose steps call a job that does nothing, on four nodes without a limit. One worker
of this process runs both.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from inturn import App, Group, GroupState, Worker
from tests.postgres_server import PostgresServer

PER_STEP_MAX, PLAN_SECONDS_MAX, SUBMIT_MB_MAX, NEXT_MS_MAX = 3.0, 1.0, 200.0, 20.0
CHAIN = 200
SECONDS_MAX = 600.0


@asynccontextmanager
async def working(app: App) -> AsyncIterator[None]:
    """Let a worker work meanwhile."""
    worker = Worker(app)
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await running


def after_of(layer: int, place: int, wide: int) -> list[tuple[int, int]]:
    """Return which three steps of the layer before a step comes after."""
    return [(layer - 1, (place + one) % wide) for one in range(3)] if layer else []


async def plain(url: str, layers: int, wide: int) -> float:
    """Run the graph as plain jobs; return seconds a job."""
    app = App(url)

    @app.job
    async def work() -> None:
        """Nothing."""

    async with app:
        calls: dict[tuple[int, int], Any] = {}
        for layer in range(layers):
            for place in range(wide):
                after = [calls[one] for one in after_of(layer, place, wide)]
                calls[layer, place] = work.using(after=after).call()
        tickets = await app.submit_many(list(calls.values()))
        began = time.perf_counter()
        async with working(app):
            for ticket in tickets[-wide:]:
                await ticket.result(timeout=SECONDS_MAX)
        return (time.perf_counter() - began) / len(calls)


def build(app: App, work: Any, layers: int, wide: int) -> Group:
    """Return the graph as a group."""
    group: Group = app.group("wide")
    call = work.call()
    for layer in range(layers):
        for place in range(wide):
            after = [f"{one} {other}" for one, other in after_of(layer, place, wide)]
            group.step(f"{layer} {place}", node=f"n{place % 4}", do=call, undo=call, after=after)
    return group


def peak_mb() -> float:
    """Return how much memory this process has had at most."""
    status = Path("/proc/self/status").read_text()  # ru_maxrss has the parent's as well
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


async def submit_alone(url: str, layers: int, wide: int) -> None:
    """Submit the graph in a process that does nothing else; print how much more memory it took."""
    app = App(url)

    @app.job
    async def work() -> None:
        """Nothing."""

    for node in range(4):
        app.node(f"n{node}", concurrency=None)
    async with app:
        await app.groups.list()
        before = peak_mb()
        await build(app, work, layers, wide).submit()
        print(peak_mb() - before)


async def grouped(url: str, layers: int, wide: int) -> dict[str, float]:
    """Run the graph as a group; return seconds a step, of its plan, and of its submit."""
    app = App(url)

    @app.job
    async def work() -> None:
        """Nothing."""

    for node in range(4):
        app.node(f"n{node}", concurrency=None)
    async with app:
        began = time.perf_counter()
        group = build(app, work, layers, wide)
        group.plan()
        planned = time.perf_counter() - began
        began = time.perf_counter()
        await group.submit()
        submitted = time.perf_counter() - began
        began = time.perf_counter()
        async with working(app):
            result = await group.result(timeout=SECONDS_MAX)
        assert result.state is GroupState.DONE, result.reason
        ran = (time.perf_counter() - began) / (layers * wide)
    return {"step": ran, "plan": planned, "submit": submitted}


async def next_step(url: str) -> list[float]:
    """Run a chain on an idle worker; return how long after each step's end the next began."""
    app, gaps, ended = App(url), list[float](), 0.0

    @app.job
    async def work() -> None:
        nonlocal ended
        if ended:
            gaps.append(time.perf_counter() - ended)
        ended = time.perf_counter()

    app.node("n", concurrency=None)
    group = app.group("chain")
    for number in range(CHAIN):
        after = [str(number - 1)] if number else []
        group.step(str(number), node="n", do=work.call(), undo=work.call(), after=after)
    async with app, working(app):
        await group.submit()
        await group.result(timeout=SECONDS_MAX)
    return sorted(gaps)


async def measure(name: str, urls: list[str], layers: int, wide: int) -> bool:
    """Measure one store and print what was found; say whether all bars are kept."""
    for url in urls:
        await App(url).migrate()
    job = await plain(urls[0], layers, wide)
    group = await grouped(urls[1], layers, wide)
    gaps = await next_step(urls[2])
    sizes = ["--layers", str(layers), "--wide", str(wide), "--submit-alone", urls[3]]
    command = [sys.executable, "-m", "bench.groups", *sizes]
    run = partial(subprocess.run, command, check=True, stdout=subprocess.PIPE)
    memory = float((await asyncio.to_thread(run)).stdout)
    p50, p99 = (gaps[int(len(gaps) * part)] * 1e3 for part in (0.5, 0.99))
    ratio = group["step"] / job
    is_planned, is_small = group["plan"] < PLAN_SECONDS_MAX, memory <= SUBMIT_MB_MAX
    rows = [
        ("a plain job with after", f"{job * 1e6:.0f} µs", True),
        ("a step", f"{group['step'] * 1e6:.0f} µs", True),
        (f"ratio ≤ {PER_STEP_MAX:g}", f"{ratio:.1f}", ratio <= PER_STEP_MAX),
        (f"build and plan < {PLAN_SECONDS_MAX:g} s", f"{group['plan']:.2f} s", is_planned),
        ("submit", f"{group['submit']:.2f} s", True),
        (f"submit ≤ {SUBMIT_MB_MAX:g} MB", f"{memory:.0f} MB", is_small),
        ("the next step starts, p50", f"{p50:.1f} ms", True),
        (f"the next step starts, p99 ≤ {NEXT_MS_MAX:g} ms", f"{p99:.1f} ms", p99 <= NEXT_MS_MAX),
    ]
    for what, found, is_kept in rows:
        print(f"{name:9} {what:38} {found:>10} {'' if is_kept else '  BAR MISSED'}", flush=True)
    return all(is_kept for *_, is_kept in rows)


async def main(layers: int, wide: int) -> int:
    """Measure both stores."""
    load = os.getloadavg()[0]
    print(f"{layers * wide:,} steps, {os.cpu_count()} cores, load {load:.1f} before", flush=True)
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        files = [f"sqlite:///{Path(folder) / f'{number}.db'}" for number in range(4)]
        kept = await measure("sqlite", files, layers, wide)
        with ExitStack() as stack:
            urls = [stack.enter_context(server.fresh_database()) for _ in range(4)]
            kept &= await measure("postgres", urls, layers, wide)
    return not kept


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=100)
    parser.add_argument("--wide", type=int, default=100)
    parser.add_argument("--submit-alone", metavar="URL", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.submit_alone is not None:
        asyncio.run(submit_alone(asked.submit_alone, asked.layers, asked.wide))
        sys.exit()
    sys.exit(asyncio.run(main(asked.layers, asked.wide)))

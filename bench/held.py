"""Enqueue and drain under a transaction that someone left open, on PostgreSQL.

While it is open no row version that died after it began can be removed. A queue that updates and
deletes a row per job has to step over ever more of them.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg

from bench.clients import consume, fill, produce
from bench.compare import Bench, in_turn
from bench.loads import Load
from bench.processes import ClientBroke, Shared, run_together
from bench.server import empty_database, tidy
from bench.sides import SideName
from bench.sizes import CONNECTIONS, Sizes
from bench.table import Bar, Row

TABLE = {"ours": "inturn.queue", "reference": "reference.job"}

Series = list[float]  # jobs a second, window by window


def held_unkeyed(bench: Bench) -> list[Row]:
    """Measure both sides without keys; the bar is on ours."""
    load = Load("held", bench.sizes.held_backlog)
    found = in_turn(bench, lambda side: _series(bench, side, load))
    reference = found["reference"]
    return [
        _row("held-unkeyed", bench.sizes, found["ours"], reference, Bar(0.7)),
        Row(
            name="held-reference",
            ours="",
            reference=_ends(_middle(reference)),
            ratio=_kept(_middle(reference)),
            bar=Bar(at_most=0.05, counts=False),
            note=_run_by_run(reference),
            measured={"reference_series": reference},
        ),
    ]


def held_keyed(bench: Bench) -> list[Row]:
    """Measure ours with a thousand keys; there is no bar, the figure is shown."""
    load = Load("held", bench.sizes.held_backlog, 1_000)
    found = in_turn(bench, lambda side: _series(bench, side, load), ("ours",))
    return [_row("held-1000-keys", bench.sizes, found["ours"], [], Bar(0.7, counts=False))]


def _row(name: str, sizes: Sizes, ours: list[Series], reference: list[Series], bar: Bar) -> Row:
    """Return the row of all runs; of a side without runs it says nothing."""
    window = f"{sizes.held_window_seconds:g} s"
    middle = _middle(ours)
    return Row(
        name=name,
        ours=_ends(middle),
        reference=_ends(_middle(reference)) if reference else "",
        ratio=_kept(middle),
        bar=bar,
        note=f"the first {window} → the last {window} of {sizes.held_seconds:g} s; "
        f"{_run_by_run(ours)}; ours in jobs/s in the median run, {window} each: "
        f"{' '.join(f'{rate:,.0f}' for rate in middle)}",
        measured={
            "ours_series": ours,
            "reference_series": reference,
            "window_seconds": sizes.held_window_seconds,
            "unit": "jobs/s",
        },
    )


def _middle(runs: list[Series]) -> Series:
    """Return the run that kept the median of what the runs kept, of two the lower."""
    return sorted(runs, key=_kept)[(len(runs) - 1) // 2]


def _run_by_run(runs: list[Series]) -> str:
    kept = [_kept(run) for run in runs]
    each = " · ".join(f"{one:.2f}" for one in kept)
    return f"last by first in each run: {each}, the worst {min(kept):.2f}"


def _ends(series: Series) -> str:
    return f"{series[0]:,.0f} → {series[-1]:,.0f}/s"


def _kept(series: Series) -> float:
    return series[-1] / max(series[0], 1e-9)


def _series(bench: Bench, side: SideName, load: Load) -> Series:
    """Return the jobs settled a second, window by window, from the moment the transaction began."""
    sizes = bench.sizes
    began_at = 0.0

    with empty_database(bench.server) as url:
        asyncio.run(fill(url, side, load))
        tidy(url)

        def meanwhile(shared: Shared) -> None:
            """Let the load come to speed, then leave a transaction open until the end."""
            nonlocal began_at
            with psycopg.connect(url, autocommit=True) as connection:
                _rest(shared, sizes.held_warm_seconds)
                connection.execute("begin isolation level repeatable read")
                connection.execute(f"select 1 from {TABLE[side]} limit 1")
                began_at = time.monotonic()
                _rest(shared, sizes.held_seconds)
                shared.stopped.set()
                connection.execute("rollback")

        answers: list[Any] = run_together(
            [
                (produce, (side, url, load, sizes.held_backlog)),
                (consume, (side, url, CONNECTIONS)),
            ],
            enqueued=load.jobs,
            meanwhile=meanwhile,
        )
    settled: list[tuple[float, int]] = answers[1]
    windows = [0] * round(sizes.held_seconds / sizes.held_window_seconds)
    for at, count in settled:
        window = int((at - began_at) // sizes.held_window_seconds)
        if 0 <= window < len(windows):
            windows[window] += count
    return [count / sizes.held_window_seconds for count in windows]


def _rest(shared: Shared, seconds: float) -> None:
    """Sleep, but not when a client broke."""
    if shared.stopped.wait(seconds):
        raise ClientBroke("a client broke while the transaction was held")

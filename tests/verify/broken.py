"""Engines with one part taken out: what must go wrong for it to be missed, and who must say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inturn.verify.report import Report
from tests.verify.support import explained, verified

RAISES = ("handler-raises",)
SEEDS = range(1, 11)

# Which part is out, what must go wrong for it to be missed, and which rule must say so.
PARTS: dict[str, tuple[tuple[str, ...], set[tuple[str, str]]]] = {
    "fence": (("stop-worker",), {("P3", "fence")}),
    "tail_lock": ((), {("P1", "order"), ("P2", "accounted")}),
    "attempt_count": (RAISES, {("P5", "attempts")}),
    "single_lease": ((), {("P1", "one lease")}),
    "atomic_bury": (RAISES, {("P4", "burying")}),
    "crash_count": (("stop-worker",), {("P6", "charges")}),
}


# What goes wrong in these runs, each once.
FAULTS = sorted({faults for faults, _ in PARTS.values()})


def broken(
    store: str | None, folder: Path, part: str, *, seed: int, spoil: str | None = None
) -> Report:
    """Run it on an engine that lacks a part, and may never come to its end."""
    faults, _ = PARTS[part]
    bounds = {"drain_seconds_max": 1.5, "stop_seconds_max": 2.0}
    return _ran(store, folder / str(seed), faults, seed=seed, spoil=spoil, **bounds)


def assert_clean(store: str | None, folder: Path, faults: tuple[str, ...]) -> None:
    """See the same run, with nothing taken out, break no promise: no checker cries by itself."""
    report = _ran(store, folder, faults, seed=SEEDS[0])
    assert report.is_good, explained(report)
    assert report.is_drained


def _ran(store: str | None, folder: Path, faults: tuple[str, ...], **wanted: Any) -> Report:
    return verified(
        store,
        folder,
        jobs=None,
        seconds=6.0 if faults == ("stop-worker",) else 1.5,
        faults=faults,
        gap_seconds=0.4,
        lease_seconds=1.0,
        **wanted,
    )


def assert_named(part: str, run: Callable[[int], Report]) -> None:
    """See a part missed, in one of a few runs: what is missing shows only when things meet."""
    _, rules = PARTS[part]
    for seed in SEEDS:
        report = run(seed)
        if rules & {(one.promise, one.rule) for one in report.violations}:
            assert not report.is_good
            return
    pytest.fail(f"nobody missed the {part}:\n{explained(report)}")

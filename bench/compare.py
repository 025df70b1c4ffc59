"""Comparing two sides: run in turn, the medians set against each other."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from bench.sides import SideName
from bench.sizes import Sizes
from bench.table import Bar, Row
from tests.postgres_server import DatabaseServer

Measured = TypeVar("Measured")
SIDES: tuple[SideName, ...] = ("reference", "ours")


@dataclass(frozen=True, slots=True)
class Bench:
    """What a measurement needs: sizes, a server, and someone to tell how far it is."""

    sizes: Sizes
    say: Callable[[str], None]
    on: DatabaseServer | None = None

    @property
    def server(self) -> DatabaseServer:
        """The PostgreSQL server, for measurements that asked for one."""
        assert self.on is not None
        return self.on


def in_turn(
    bench: Bench, measure: Callable[[SideName], Measured], sides: tuple[SideName, ...] = SIDES
) -> dict[SideName, list[Measured]]:
    """Measure each side, one after the other, again and again."""
    found: dict[SideName, list[Measured]] = {side: [] for side in sides}
    for run in range(bench.sizes.runs):
        for side in sides:
            bench.say(f"{side}, run {run + 1} of {bench.sizes.runs}")
            found[side].append(measure(side))
    return found


def rated(
    name: str, bar: Bar, ours: list[float], reference: list[float], *, note: str = "", **more: Any
) -> Row:
    """Return the row of two lists of jobs a second."""
    fast, plain = statistics.median(ours), statistics.median(reference)
    return Row(
        name=name,
        ours=f"{fast:,.0f}/s",
        reference=f"{plain:,.0f}/s",
        ratio=fast / plain,
        bar=bar,
        note=note,
        measured={"ours": ours, "reference": reference, "unit": "jobs/s", **more},
    )

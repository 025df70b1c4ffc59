"""What was measured: rows with their bars, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Bar:
    """What a ratio has to reach, or must not pass. One that does not count is only shown."""

    at_least: float | None = None
    at_most: float | None = None
    counts: bool = True
    unit: str = "x"

    def holds(self, value: float) -> bool:
        """Say whether a value clears the bar."""
        return (self.at_least is None or value >= self.at_least) and (
            self.at_most is None or value <= self.at_most
        )

    def __str__(self) -> str:
        sign, value = ("≥", self.at_least) if self.at_least is not None else ("≤", self.at_most)
        return f"{sign} {value:g}{self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the result."""

    name: str
    ours: str
    reference: str
    ratio: float  # or whatever the bar is about
    bar: Bar
    note: str = ""
    broke: bool = False
    absent: bool = False  # there was nothing to measure
    measured: dict[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether the bar is cleared."""
        return not self.broke and self.bar.holds(self.ratio)

    @property
    def missed(self) -> bool:
        """Whether a bar that counts is not cleared."""
        return not self.holds and not self.absent and (self.bar.counts or self.broke)

    @property
    def result(self) -> str:
        """The word for what came of it."""
        if self.broke:
            return "broke"
        if self.absent:
            return "not here"
        if self.bar.counts:
            return "pass" if self.holds else "FAIL"
        return "(holds)" if self.holds else "(does not hold)"


def broken(name: str, error: BaseException) -> Row:
    """Return the row of a measurement that could not be made."""
    note = f"{type(error).__name__}: {error}".strip()
    return Row(name=name, ours="-", reference="-", ratio=0.0, bar=Bar(0), note=note, broke=True)


def absent(name: str, why: str) -> Row:
    """Return the row of a measurement that needs what is not on this machine."""
    return Row(
        name=name,
        ours="-",
        reference="-",
        ratio=0.0,
        bar=Bar(0, counts=False),
        note=why,
        absent=True,
    )


def show(console: Console, rows: list[Row], *, quick: bool) -> None:
    """Print the table, then the notes."""
    table = Table(
        title="quick run: the figures say nothing, the bars are not held" if quick else None
    )
    table.add_column("name", no_wrap=True)
    for heading in ("ours", "reference", "ratio", "bar"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        colour = "red" if row.missed else "green" if row.bar.counts else "dim"
        is_measured = not (row.broke or row.absent)
        ratio = f"{row.ratio:.2f}{row.bar.unit}" if is_measured else "-"
        bar = str(row.bar) if is_measured else "-"
        table.add_row(row.name, row.ours, row.reference, ratio, bar, Text(row.result, style=colour))
    console.print(table)
    for row in rows:
        if row.note:
            style = "red" if row.broke else "dim"
            console.print(Text(f"{row.name}: {row.note}", style=style), soft_wrap=True)


def show_conditions(console: Console, conditions: dict[str, Any]) -> None:
    """Print the conditions, a line each."""
    for name, value in conditions.items():
        console.print(Text(f"{name:>11}  {value}", style="dim"), soft_wrap=True)


def as_json(conditions: dict[str, Any], rows: list[Row]) -> str:
    """Return everything that was measured, each run of it."""
    return json.dumps(
        {
            "conditions": conditions,
            "rows": [
                asdict(row) | {"bar": str(row.bar), "counts": row.bar.counts, "result": row.result}
                for row in rows
            ],
        },
        indent=2,
        ensure_ascii=False,
    )

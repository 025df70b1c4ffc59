"""The command line of a benchmark: choose what to measure, measure it, print it with its bars."""

from __future__ import annotations

import argparse
import contextlib
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from bench.compare import Bench
from bench.server import server
from bench.sizes import FULL, QUICK, Sizes
from bench.table import Row, as_json, broken, show, show_conditions
from tests.postgres_server import DatabaseServer

PLAIN_WIDTH = 110  # of the table in a file or a pipe


@dataclass(frozen=True, slots=True)
class Measurement:
    """Something to measure, by the name that ``--only`` knows it under."""

    name: str
    run: Callable[[Bench], list[Row]]
    postgres: bool = True


Conditions = Callable[[Sizes, DatabaseServer | None], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Command:
    """A benchmark that is run as ``python -m NAME``."""

    name: str
    description: str | None
    measurements: Sequence[Measurement]
    conditions: Conditions

    def run(self, arguments: Sequence[str] | None = None) -> int:
        """Measure, print, and return 1 when a bar is missed."""
        asked = self._parser().parse_args(arguments)
        chosen = self._choose(asked.only)
        sizes = QUICK if asked.quick else FULL
        console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
        with contextlib.ExitStack() as stack:
            on: DatabaseServer | None = None
            if any(one.postgres for one in chosen):
                on = stack.enter_context(server())
            found = self.conditions(sizes, on)
            if not asked.json:
                show_conditions(console, found)
            rows = _measure(chosen, sizes, on)
        if asked.json:
            print(as_json(found, rows))
        else:
            show(console, rows, quick=sizes.quick)
        broke = any(row.broke for row in rows)
        missed = any(row.missed for row in rows)
        return int(broke or (missed and not sizes.quick))

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=f"python -m {self.name}", description=self.description
        )
        parser.add_argument(
            "--json", action="store_true", help="print every run of everything as JSON"
        )
        parser.add_argument(
            "--quick", action="store_true", help="small sizes; the bars are not held"
        )
        parser.add_argument(
            "--only",
            action="append",
            metavar="NAME",
            help="only what starts with NAME, may be repeated: "
            + ", ".join(one.name for one in self.measurements),
        )
        return parser

    def _choose(self, names: list[str] | None) -> list[Measurement]:
        if not names:
            return list(self.measurements)
        for name in names:
            if not any(one.name.startswith(name) for one in self.measurements):
                known = ", ".join(one.name for one in self.measurements)
                raise SystemExit(f"there is no measurement {name!r}. There are: {known}.")
        return [one for one in self.measurements if one.name.startswith(tuple(names))]


def _measure(chosen: list[Measurement], sizes: Sizes, on: DatabaseServer | None) -> list[Row]:
    """Make each measurement; one that breaks does not keep the others from being made."""
    console = Console(stderr=True)
    rows: list[Row] = []
    columns = (TextColumn("{task.description}"), BarColumn(20), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        shown = progress.add_task("", total=len(chosen))
        for one in chosen:

            def say(step: str, name: str = one.name) -> None:
                progress.update(shown, description=f"{name}: {step}")

            try:
                rows += one.run(Bench(sizes, say, on))
            except Exception as error:
                console.print(Text(traceback.format_exc(), style="red"))
                rows.append(broken(one.name, error))
            progress.advance(shown)
    return rows

"""Tables for people: fitted to the terminal, whole when they go elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 110  # columns of a terminal from which there is room for more

_GAP = 2
_STYLES = {
    "running": "green",
    "leased": "green",
    "done": "green",
    "retrying": "yellow",
    "sleeping": "yellow",
    "paused": "yellow",
    "gated": "yellow",
    "dead": "red",
    "halted": "red",
    "cancelled": "dim",
    "idle": "dim",
}


class Column(msgspec.Struct, frozen=True):
    """A column: its head, whether it may be shortened, and whether it needs a wide terminal."""

    head: str
    shrinks: bool = False
    right: bool = False
    wide: bool = False


class Sheet:
    """A table that is printed in one go or page by page, with the columns of its first page."""

    def __init__(self, columns: Sequence[Column], console: Console) -> None:
        self._console = console
        self._chosen = [
            place
            for place, column in enumerate(columns)
            if console.width >= WIDE or not column.wide
        ]
        self._columns = [columns[place] for place in self._chosen]
        self._widths: list[int] = []

    def print(self, rows: Sequence[Sequence[str | Text]]) -> None:
        """Print some rows, under a header if they are the first."""
        table = self.table(rows)
        if self._console.is_terminal:
            self._console.print(table)
            return
        with self._console.capture() as capture:
            self._console.print(table)
        for line in capture.get().splitlines():
            self._console.file.write(line.rstrip() + "\n")

    def table(self, rows: Sequence[Sequence[str | Text]]) -> Table:
        """Return the rows as a table as wide as the console allows."""
        chosen = [[row[place] for place in self._chosen] for row in rows]
        is_first = not self._widths
        if is_first:
            by_column = zip(self._heads(), *chosen, strict=True)
            natural = [max(map(_width, cells)) for cells in by_column]
            self._widths = _fitted(natural, self._columns, self._console.width)
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=is_first)
        for column, width in zip(self._columns, self._widths, strict=True):
            table.add_column(
                Text(column.head, "bold"),
                justify="right" if column.right else "left",
                no_wrap=True,
                overflow="ellipsis",
                width=width if self._console.is_terminal else None,
                min_width=width,
            )
        for cells in chosen:
            table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))
        return table

    def _heads(self) -> list[str]:
        return [column.head for column in self._columns]


def fields(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """Return a line for each field that has a value: its name, then the value, which may wrap."""
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value:
            grid.add_row(Text(name, "bold"), Text(value) if isinstance(value, str) else value)
    return grid


def state_text(state: str) -> Text:
    """Return a state in its colour."""
    return Text(state, _STYLES.get(state, ""))


def number_text(number: int, style: str = "") -> Text:
    """Return a number; nothing stands back."""
    return Text(f"{number:,}", style if number else "dim")


def _width(cell: str | Text) -> int:
    return cell.cell_len if isinstance(cell, Text) else cell_len(cell)


def _fitted(natural: Sequence[int], columns: Sequence[Column], width: int) -> list[int]:
    """Return widths that fit: what may be shortened is, the longest first, down to its head."""
    widths = list(natural)
    shrinking = [place for place, column in enumerate(columns) if column.shrinks]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    while excess > 0:
        longest = max(shrinking, key=lambda place: widths[place], default=None)
        if longest is None or widths[longest] <= len(columns[longest].head):
            break
        widths[longest] -= 1
        excess -= 1
    return widths

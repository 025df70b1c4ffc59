"""Tables for people: fitted to the terminal, whole when they go elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

Cells = Sequence[str | Text]

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

    def print(self, rows: Sequence[Cells]) -> None:
        """Print some rows, under a header if they are the first."""
        if self._console.is_terminal:
            self._console.print(self.table(rows))
            return
        for line in self._lines(rows):
            self._console.file.write(line + "\n")

    def table(self, rows: Sequence[Cells]) -> Table:
        """Return the rows as a table as wide as the console allows."""
        chosen, is_first = self._measured(rows)
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=is_first)
        for column, width in zip(self._columns, self._widths, strict=True):
            table.add_column(
                Text(column.head, "bold"),
                justify="right" if column.right else "left",
                no_wrap=True,
                overflow="ellipsis",
                width=width,
            )
        for cells in chosen:
            table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))
        return table

    def _lines(self, rows: Sequence[Cells]) -> Iterator[str]:
        """Yield the rows as plain lines, nothing shortened; ten times as quick as a table."""
        chosen, is_first = self._measured(rows)
        for cells in [self._heads(), *chosen] if is_first else chosen:
            padded = map(_padded, cells, self._widths, self._columns)
            yield (" " * _GAP).join(padded).rstrip()

    def _measured(self, rows: Sequence[Cells]) -> tuple[list[Cells], bool]:
        """Return the cells to show, and whether they are the first, which settle the widths."""
        chosen: list[Cells] = [[row[place] for place in self._chosen] for row in rows]
        if self._widths:
            return chosen, False
        by_column = zip(self._heads(), *chosen, strict=True)
        natural = [max(map(_width, cells)) for cells in by_column]
        self._widths = _fitted(natural, self._columns, self._console.width)
        return chosen, True

    def _heads(self) -> Cells:
        return [column.head for column in self._columns]


def print_to(console: Console, shown: RenderableType) -> None:
    """Print to a terminal as it is, elsewhere without blanks at the ends of lines."""
    if console.is_terminal:
        console.print(shown)
        return
    with console.capture() as capture:
        console.print(shown)
    for line in capture.get().splitlines():
        console.file.write(line.rstrip() + "\n")


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


def _padded(cell: str | Text, width: int, column: Column) -> str:
    blanks = " " * (width - _width(cell))
    return blanks + str(cell) if column.right else str(cell) + blanks


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

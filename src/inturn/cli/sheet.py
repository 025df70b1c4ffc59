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
            self._console.print(self.text(rows), soft_wrap=True)
            return
        for cells in self._measured(rows):
            padded = map(_padded, cells, self._widths, self._columns)
            self._console.file.write((" " * _GAP).join(padded).rstrip() + "\n")

    def text(self, rows: Sequence[Cells]) -> Text:
        """Return the rows as lines that fit the console, under a header if they are the first."""
        gap = Text(" " * _GAP)
        lines = []
        for cells in self._measured(rows):
            line = gap.join(map(_fit, cells, self._widths, self._columns))
            line.rstrip()
            lines.append(line)
        return Text("\n").join(lines)

    def _measured(self, rows: Sequence[Cells]) -> Iterator[Cells]:
        """Yield what to show; the first rows settle the widths and have the heads before them."""
        chosen: list[Cells] = [[row[place] for place in self._chosen] for row in rows]
        if not self._widths:
            heads = [Text(column.head, "bold") for column in self._columns]
            natural = [max(map(_width, cells)) for cells in zip(heads, *chosen, strict=True)]
            self._widths = _fitted(natural, self._columns, self._console.width)
            yield heads
        yield from chosen


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


def _fit(cell: str | Text, width: int, column: Column) -> Text:
    """Return a cell as wide as its column, shortened if it must and may be."""
    text = Text(cell) if isinstance(cell, str) else cell.copy()
    if column.shrinks:
        text.truncate(width, overflow="ellipsis")
    blanks = Text(" " * (width - text.cell_len))
    return blanks + text if column.right else text + blanks


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

"""Tables for people: fitted to the terminal, whole when they go elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

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
    """A column: its head, whether it may be shortened (to ``least`` at most), and whether it needs
    a wide terminal.

    Where there is no room for all, those that can be spared are left out, the lowest number first.
    """

    head: str
    shrinks: bool = False
    right: bool = False
    wide: bool = False
    spare: int = 0
    least: int = 0

    def narrowest(self, natural: int) -> int:
        """Return how narrow it may become, if it is so wide by what is in it."""
        return min(natural, max(len(self.head), self.least)) if self.shrinks else natural


class Sheet:
    """A table that is printed in one go or page by page, with the columns of its first page."""

    def __init__(self, columns: Sequence[Column], console: Console) -> None:
        self._console = console
        self._columns = {  # those that are shown, by their place in a row
            place: column
            for place, column in enumerate(columns)
            if console.width >= WIDE or not column.wide
        }
        self._widths: list[int] = []

    def print(self, rows: Sequence[Cells]) -> None:
        """Print some rows, under a header if they are the first."""
        if self._console.is_terminal:
            self._console.print(self.text(rows), soft_wrap=True)
            return
        for cells in self._measured(rows):
            padded = map(_padded, cells, self._widths, self._columns.values())
            self._console.file.write((" " * _GAP).join(padded).rstrip() + "\n")

    def text(self, rows: Sequence[Cells]) -> Text:
        """Return the rows as lines that fit the console, under a header if they are the first."""
        gap = Text(" " * _GAP)
        lines = []
        for cells in self._measured(rows):
            line = gap.join(map(_fit, cells, self._widths, self._columns.values()))
            line.rstrip()
            lines.append(line)
        return Text("\n").join(lines)

    def _measured(self, rows: Sequence[Cells]) -> Iterator[Cells]:
        """Yield what to show; the first rows settle the widths and have the heads before them."""
        if not self._widths:
            self._settle(rows)
            yield [Text(column.head, "bold") for column in self._columns.values()]
        for row in rows:
            yield [row[place] for place in self._columns]

    def _settle(self, rows: Sequence[Cells]) -> None:
        """Leave out what there is no room for, and settle how wide the rest is."""
        columns, width = self._columns, self._console.width
        natural = {
            place: max([len(column.head), *(_width(row[place]) for row in rows)])
            for place, column in columns.items()
        }
        spares = [place for place, column in columns.items() if column.spare]
        for place in sorted(spares, key=lambda place: columns[place].spare):
            if _least(natural, columns) <= width:
                break
            del columns[place]
        self._widths = _fitted([natural[place] for place in columns], list(columns.values()), width)


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


def _least(natural: Mapping[int, int], columns: Mapping[int, Column]) -> int:
    """Return how wide a table is when all that may be shortened is."""
    widths = [column.narrowest(natural[place]) for place, column in columns.items()]
    return sum(widths) + _GAP * (len(widths) - 1)


def _fitted(natural: Sequence[int], columns: Sequence[Column], width: int) -> list[int]:
    """Return widths that fit: what may be shortened is, the longest first."""
    widths = list(natural)
    narrowest = [column.narrowest(wide) for column, wide in zip(columns, natural, strict=True)]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    while excess > 0:
        shrinking = [place for place, least in enumerate(narrowest) if widths[place] > least]
        longest = max(shrinking, key=lambda place: widths[place], default=None)
        if longest is None:
            break
        widths[longest] -= 1
        excess -= 1
    return widths

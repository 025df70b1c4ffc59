"""Text for people: ages, times, tables, and names from a store made safe to print."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from uuid import UUID

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

Cell = str | Text

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
_UNCUT = 10_000  # columns
_CUT_MIN = 8  # columns that are left of a cell
_GAP, _INDENT = 2, " " * 4
_STEPS = (("d", 86_400), ("h", 3_600), ("m", 60))


def plain(text: str) -> str:
    """Return text with control characters spelled out, all but the end of a line.

    Keys, errors and payloads come from anywhere; an escape sequence in one could rewrite the
    terminal.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


def name_text(name: str | None) -> str:
    """Return a name on one line; nothing for None."""
    return plain(name or "").replace("\n", "\\n")


def one_line(text: str | None) -> str:
    """Return prose on one line, with single blanks; nothing for None."""
    return plain(" ".join((text or "").split()))


def own_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """Leave out the jobs that groups add to an app (``groups.step``): nobody submits those."""
    return tuple(kind for kind in kinds if not kind.startswith("groups."))


def short_id(job: UUID) -> str:
    """Return the end of a job's id, which is random: what tables show and commands accept."""
    return job.hex[-8:]


def time_text(time: datetime | None) -> str:
    """Return a time in ISO 8601, in UTC, to the millisecond."""
    if time is None:
        return ""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age(since: datetime | None, now: datetime) -> str:
    """Return how long ago a time was, in its largest unit: 12s, 3m, 2h, 5d."""
    return "" if since is None else duration((now - since).total_seconds())


def duration(seconds: float) -> str:
    """Return a length of time in its largest unit."""
    for unit, length in _STEPS:
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    if seconds >= 1 or seconds <= 0:
        return f"{max(int(seconds), 0)}s"
    return f"{seconds * 1000:.3g}ms"


def seconds_text(seconds: float | None) -> str:
    """Return a setting as it would be typed: 500ms, 1m30s, 1d."""
    if seconds is None:
        return ""
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    said, rest = "", seconds
    for unit, length in _STEPS:
        number, rest = divmod(rest, length)
        said += f"{number:.0f}{unit}" if number else ""
    return f"{said}{rest:g}s" if rest or not said else said


def count(number: int, noun: str) -> str:
    """Return a number with its noun: 1 job, 2 jobs."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def state_text(state: str) -> Text:
    """Return a state in its colour."""
    return Text(state, _STYLES.get(state, ""))


def number_text(number: int, style: str = "") -> Text:
    """Return a number; zero is dim."""
    return Text(f"{number:,}", style if number else "dim")


def make_console() -> Console:
    """Return the terminal; or, where output goes elsewhere, lines that are never cut."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _UNCUT
    return console


def print_to(console: Console, shown: RenderableType) -> None:
    """Print; where output goes elsewhere, without blanks at the ends of lines."""
    if console.is_terminal:
        console.print(shown)
        return
    for one in shown.renderables if isinstance(shown, Group) else [shown]:
        if isinstance(one, Table):  # there may be many lines, and rich takes long for each
            lines = ["".join(map(str, pieces)) for pieces in one.lines(console.width)]
        else:
            with console.capture() as capture:
                console.print(one)
            lines = capture.get().splitlines()
        console.file.writelines(line.rstrip() + "\n" for line in lines)


def table(
    heads: Sequence[str], rows: Iterable[Sequence[Cell]], *, without: Collection[str] = ()
) -> Table:
    """Return a table without lines, ``without`` columns of these names.

    A head that begins with ``>`` aligns its column right. Where the terminal is narrow, a last
    column whose head ends with ``¶`` goes to lines of its own, and columns whose heads end with
    ``…`` are cut: the last first, the key after all others.
    """
    kept = [at for at, head in enumerate(heads) if _name(head) not in without]
    return Table([heads[at] for at in kept], [[row[at] for at in kept] for row in rows])


class Table:
    """Rows of cells, which are laid out when the width of the terminal is known."""

    def __init__(self, heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
        self._heads = heads
        self._rows = [[Text(_name(head), "bold") for head in heads], *rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what is shown on a terminal."""
        for pieces in self.lines(options.max_width):
            yield Text.assemble(*pieces, no_wrap=True, overflow="ellipsis")

    def lines(self, width: int) -> Iterator[list[Cell]]:
        """Return the lines, piece by piece, that fit into so many columns."""
        widths = [max(map(_cell_width, column)) for column in zip(*self._rows, strict=True)]
        over = sum(widths) + _GAP * (len(widths) - 1) - width
        is_split = over > 0 and self._heads[-1].endswith("¶")
        if is_split:
            over -= widths.pop() + _GAP
        may_cut = [at for at in range(len(widths)) if self._heads[at].endswith("…")]
        for at in sorted(may_cut, key=lambda at: (self._heads[at] == "key…", -at)):
            taken = max(0, min(over, widths[at] - _CUT_MIN))
            widths[at], over = widths[at] - taken, over - taken
        for number, row in enumerate(self._rows):
            yield self._line(row, widths)
            if is_split and number and row[-1]:
                yield [_INDENT, row[-1]]

    def _line(self, row: Sequence[Cell], widths: Sequence[int]) -> list[Cell]:
        pieces: list[Cell] = []
        for cell, head, width in zip(row, self._heads, widths, strict=False):
            if (blank := width - _cell_width(cell)) < 0:
                cell = Text(str(cell), cell.style if isinstance(cell, Text) else "")
                cell.truncate(width, overflow="ellipsis")
                blank = width - cell.cell_len
            gap = " " * _GAP
            pieces += [" " * blank, cell, gap] if head.startswith(">") else [cell, " " * blank, gap]
        return pieces[:-1]


def _name(head: str) -> str:
    return head.strip(">…¶")


def _cell_width(cell: Cell) -> int:
    text = str(cell)
    return len(text) if text.isascii() else cell_len(text)


def fields(rows: Iterable[tuple[str, Cell]]) -> RichTable:
    """Return a line for each field that has a value; a long value wraps beside its name."""
    grid = RichTable.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value:
            grid.add_row(Text(name, "bold"), _text(value))
    return grid


def _text(cell: Cell) -> Text:
    return Text(cell) if isinstance(cell, str) else cell

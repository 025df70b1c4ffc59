"""Text for people: ages, times, tables, and names from a store made safe to print."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from uuid import UUID

from rich.console import Console, RenderableType
from rich.table import Table
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
        console.width = 10_000
    return console


def print_to(console: Console, shown: RenderableType) -> None:
    """Print, without blanks at the ends of lines."""
    if console.is_terminal:
        console.print(shown)
        return
    with console.capture() as capture:
        console.print(shown)
    for line in capture.get().splitlines():
        console.file.write(line.rstrip() + "\n")


def table(heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    """Return a table without lines. A head that begins with ``>`` aligns its column right, and one
    that ends with ``…`` may be cut where the terminal is narrow.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    cut = [head.endswith("…") for head in heads]
    for head, may_cut in zip(heads, cut, strict=True):
        made.add_column(
            head.strip(">…"),
            justify="right" if head.startswith(">") else "left",
            no_wrap=not may_cut,
        )
    for row in rows:
        made.add_row(
            *(
                Text(str(cell), no_wrap=True, overflow="ellipsis") if may_cut else _text(cell)
                for cell, may_cut in zip(row, cut, strict=True)
            )
        )
    return made


def fields(rows: Iterable[tuple[str, Cell]]) -> Table:
    """Return a line for each field that has a value; a long value wraps beside its name."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value:
            grid.add_row(Text(name, "bold"), _text(value))
    return grid


def _text(cell: Cell) -> Text:
    return Text(cell) if isinstance(cell, str) else cell

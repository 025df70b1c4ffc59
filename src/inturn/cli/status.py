"""``inturn status``: every queue's depth and age, and what holds it back."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from inturn.cli.call import Call, command
from inturn.cli.documents import queue_document
from inturn.cli.options import flag
from inturn.cli.plain import age, count, name_text, time_text
from inturn.cli.sheet import WIDE, Column, Sheet, number_text, print_to
from inturn.model.lane import QueueStatus
from inturn.store.protocol import Store

WATCH_SECONDS = 1.0
SILENT_SECONDS = 2.0  # how long an answer may take before that is said, and said again

_COLUMNS = (
    Column("queue", shrinks=True),
    Column("waiting", right=True),
    Column("running", right=True, spare=5),
    Column("scheduled", right=True, spare=2),
    Column("retrying", right=True, spare=3),
    Column("blocked", right=True, spare=1),
    Column("dead", right=True),
    Column("oldest", right=True, spare=4),
    Column("lanes", right=True, wide=True),
    Column("notes", shrinks=True, wide=True),
)


def add_to(app: typer.Typer) -> None:
    """Make this a command of ``app``."""
    command(
        app,
        "status",
        "inturn status",
        "inturn status --watch",
        json="Print one JSON document; with --watch, one a line.",
    )(_status)


def _status(
    call: Call,
    watch: Annotated[bool, flag("--watch", help="Go on until Ctrl-C.")] = False,
) -> None:
    """Show every queue: jobs by state, the oldest one's age, gate, bounds, what is held."""
    if watch:
        watched = _streamed if call.out.as_json else _watched
        with contextlib.suppress(KeyboardInterrupt):
            call.run(lambda store: watched(call, store))
        return
    found, now = call.run(_read)
    call.out.answer(_document(found, now), _shown(call, found, now))


async def _read(store: Store) -> tuple[list[QueueStatus], datetime]:
    return await store.queues(), await store.now()


def _document(found: list[QueueStatus], now: datetime) -> dict[str, Any]:
    return {"at": now, "queues": [queue_document(status) for status in found]}


async def _streamed(call: Call, store: Store) -> None:
    """Print the status again and again, each time as a JSON document on a line."""
    while True:
        call.out.line(_document(*await _read(store)))
        await asyncio.sleep(WATCH_SECONDS)


async def _watched(call: Call, store: Store) -> None:
    """Show the status again and again, in place on a terminal, line after line elsewhere."""
    with Live(console=call.out.console, auto_refresh=False) as live:
        screen = _Screen(call, live)
        while True:
            reading = asyncio.ensure_future(_read(store))
            try:
                while not (await asyncio.wait([reading], timeout=SILENT_SECONDS))[0]:
                    screen.wait()
                screen.show(*reading.result())
            finally:
                reading.cancel()
            await asyncio.sleep(WATCH_SECONDS)


class _Screen:
    """What is watched: the last status, and how long the store has been silent since."""

    def __init__(self, call: Call, live: Live) -> None:
        self._call, self._live = call, live
        self._last: RenderableType = Text()
        self._silences = 0

    def show(self, found: list[QueueStatus], now: datetime) -> None:
        """Show a status that the store has just given."""
        self._silences = 0
        self._last = Group(Text(time_text(now), "dim"), _shown(self._call, found, now))
        self._print(self._last)

    def wait(self) -> None:
        """Say that what stands there is of an earlier time; once, where lines follow lines."""
        self._silences += 1
        seconds = self._silences * SILENT_SECONDS
        said = Text(f"The store has not answered for {seconds:.0f} s.", "yellow")
        if self._live.console.is_terminal:
            self._print(Group(self._last, Text(), said))
        elif self._silences == 1:
            self._print(said)

    def _print(self, shown: RenderableType) -> None:
        console = self._live.console
        if console.is_terminal:
            self._live.update(shown, refresh=True)
        else:
            print_to(console, shown)
            console.file.flush()


def _shown(call: Call, found: list[QueueStatus], now: datetime) -> RenderableType:
    """Return the table; where it has no room for notes they follow it, a line for each queue."""
    if not found:
        return Text("No queues yet: nothing was ever submitted.")
    console = call.out.console
    table = Sheet(_COLUMNS, console).text([_cells(status, now) for status in found])
    notes = [
        Text(f"{name_text(status.name)}: {_notes(status)}")
        for status in found
        if console.width < WIDE and _notes(status)
    ]
    return Group(table, *([Text()] if notes else []), *notes)


def _cells(status: QueueStatus, now: datetime) -> tuple[Any, ...]:
    return (
        name_text(status.name),
        number_text(status.waiting),
        number_text(status.running, "green"),
        number_text(status.scheduled),
        number_text(status.retrying, "yellow"),
        number_text(status.blocked),
        number_text(status.dead, "red"),
        age(status.oldest_at, now),
        number_text(status.lanes),
        _notes(status),
    )


def _notes(status: QueueStatus) -> str:
    """Say what holds a queue back or bounds it."""
    settings = status.settings
    notes = [
        f"paused by {name_text(status.paused_by)}" if status.paused_by is not None else "",
        f"{count(status.halted, 'lane')} halted" if status.halted else "",
        f"gate at round {status.gate}" if status.gate else "",
        f"at most {count(settings.depth_max, 'job')}" if settings.depth_max else "",
        f"at most {settings.lane_depth_max:,} a lane" if settings.lane_depth_max else "",
    ]
    return ", ".join(note for note in notes if note)

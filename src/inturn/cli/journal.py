"""What ``inturn work`` writes: where it begins, a log, a summary; or each event as JSON."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
from datetime import UTC, datetime
from io import TextIOWrapper
from typing import TextIO

import msgspec
from rich.console import RenderableType
from rich.text import Text

from inturn.cli.text import (
    count,
    duration,
    fields,
    make_console,
    name_text,
    own_kinds,
    plain,
    print_to,
)
from inturn.log import WORKER, log_queues_unknown, log_serves_nothing, log_store_left
from inturn.model.worker_events import Counts, Started, Stopped, WorkerEvent

_NAMES_SHOWN = 8
_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"


class Journal:
    """Listens to a worker or a supervisor, which tells of beginning and end for its processes.

    With ``keeps_output`` its JSON is alone on standard output, whatever handlers print.
    """

    def __init__(
        self, *, as_json: bool, is_member: bool = False, keeps_output: bool = False
    ) -> None:
        self._as_json, self._console = as_json, make_console()
        self._is_member = is_member
        self._apart = _output_apart() if as_json and keeps_output else None

    def open_log(self) -> None:
        """Write the log to stderr, unless the app has set up one of its own.

        Beside JSON there is no other: each event is a line of it.
        """
        if logging.getLogger().handlers:
            return
        ours = logging.getLogger("inturn")
        if self._as_json:
            ours.addHandler(logging.NullHandler())
            return
        handler = logging.StreamHandler()
        handler.setFormatter(_PlainFormatter(_FORMAT, "%H:%M:%S"))
        ours.addHandler(handler)
        logging.getLogger(WORKER).setLevel(logging.INFO)

    def __call__(self, event: WorkerEvent) -> None:
        """Write an event, if a person would miss it or a program wants it."""
        if self._is_member and isinstance(event, Started | Stopped):
            return
        if self._as_json:
            self._write(event)
        elif isinstance(event, Started):
            self._begin(event)
        elif isinstance(event, Stopped):
            self._print(Text(_summary(event)))

    def close(self) -> None:
        """Write what could not be written so far; raise ``OSError`` if it still cannot be.

        A terminal that someone closed is none to tell of.
        """
        if self._apart is None:
            return
        try:
            self._apart.flush()
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._apart.fileno(), inheritable=False)
            if error.errno != errno.EIO:
                raise

    def _write(self, event: WorkerEvent) -> None:
        """Write a line in one piece, for several processes share their output."""
        document = {"at": datetime.now(UTC)} | msgspec.to_builtins(event)
        lines = self._apart or sys.stdout
        with contextlib.suppress(OSError):  # nobody reads it: no reason to stop working
            lines.write(msgspec.json.encode(document).decode() + "\n")
            lines.flush()

    def _begin(self, event: Started) -> None:
        rows: list[tuple[str, str | Text]] = [
            ("store", plain(event.store)),
            ("queues", _names(event.queues)),
            ("kinds", _names(own_kinds(event.kinds))),
            ("worker", name_text(event.worker)),
            ("concurrency", f"{event.concurrency:,}"),
        ]
        if event.processes > 1:
            rows[-1] = (
                "concurrency",
                f"{event.concurrency:,} in each of {event.processes} processes",
            )
        self._print(Text(f"inturn {event.version} works for {plain(event.app)}", "bold"))
        self._print(fields(rows))
        self._print(
            Text("Ctrl-C finishes running jobs and exits; press it again to stop at once.", "dim")
        )
        if event.store_left and event.store_named_by not in (None, "--store"):
            log_store_left(event.app, event.store, event.store_left, event.store_named_by)
        if event.queues_unknown:
            log_queues_unknown(event.worker, event.queues_unknown)
        if not event.queues:
            log_serves_nothing(event.worker, event.queues_local)

    def _print(self, shown: RenderableType) -> None:
        with contextlib.suppress(OSError):
            print_to(self._console, shown)
            self._console.file.flush()


class _PlainFormatter(logging.Formatter):
    """Spells out control characters: errors come from anywhere."""

    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))


def _names(names: tuple[str, ...]) -> str:
    shown = " ".join(name_text(name) for name in names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _summary(event: Stopped) -> str:
    counts: Counts = event.counts
    said = [f"{count(counts.done, 'job')} done"]
    said += [
        f"{number:,} {word}"
        for number, word in (
            (counts.failed, "will be retried"),
            (counts.dead, "dead"),
            (counts.released, "released"),
            (counts.lost, "lost to others"),
        )
        if number
    ]
    when, what = f"Stopped after {duration(event.seconds)}", ", ".join(said)
    if not event.members_died:
        return f"{when}: {what}."
    died = "1 process" if event.members_died == 1 else f"{event.members_died:,} processes"
    return f"{when}: at least {what}; {died} died without saying what was done last."


def _output_apart() -> TextIO:
    """Return standard output for the caller alone; what else is written there goes to stderr.

    That holds for code that is not ours, however it writes, and for every process it starts: the
    number 1 is that of stderr from now on, and the other one is handed on to nobody.
    """
    sys.stdout.flush()
    apart = os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)
    os.dup2(2, 1)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # as stderr is
    return apart

"""How the command ends: an exit code for scripts, and lines on stderr that say why."""

from __future__ import annotations

import sys
from enum import IntEnum

from inturn.cli.text import plain
from inturn.model.errors import (
    AppInterrupted,
    AppNotFound,
    BadInput,
    InturnError,
    QueueFull,
    StoreBusy,
    StoreError,
)


class ExitCode(IntEnum):
    """What the command exits with."""

    OK = 0
    NO = 1  # no such thing, too late, refused, or a problem was found
    USAGE = 2  # the command line, a payload or a setting is wrong
    STORE = 3  # the store cannot be reached or used
    LATER = 4  # the queue is full or the store is busy: try again later
    INTERRUPTED = 130  # Ctrl-C


def code_of(error: InturnError) -> ExitCode:
    """Return the exit code of an error."""
    match error:
        case AppInterrupted():
            return ExitCode.INTERRUPTED
        case BadInput():
            return ExitCode.USAGE
        case QueueFull() | StoreBusy():
            return ExitCode.LATER
        case StoreError():
            return ExitCode.STORE
        case _:
            return ExitCode.NO


def complain(text: str, hint: str = "") -> None:
    """Print on stderr what is wrong, and on a second line what to do."""
    print(f"inturn: {plain(text)}", file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)


def explained(error: InturnError) -> ExitCode:
    """Print what is wrong; return what to exit with."""
    seen = error.seen if isinstance(error, AppNotFound) else ()
    complain(str(error), "\n".join(map(plain, seen)))
    return code_of(error)

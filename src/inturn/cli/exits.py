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
    QueueInUse,
    StoreBusy,
    StoreError,
    UnknownJob,
    UnknownLane,
    UnknownQueue,
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
    """Print what is wrong and what to do; return what to exit with."""
    complain(str(error), _hint(error))
    return code_of(error)


def _hint(error: InturnError) -> str:
    """Return the command that helps, where the error itself does not name it."""
    match error:
        case AppNotFound(seen=seen):
            return "\n".join(plain(line) for line in seen)
        case UnknownQueue():
            return "List queues: `inturn queues list`. Make one: `inturn queues set`."
        case QueueInUse(running=0):
            return "With all that is in it: `inturn queues drop --all`."
        case UnknownLane():
            return "List the lanes of a queue: `inturn lanes list`."
        case UnknownJob():
            return "List jobs: `inturn jobs list`."
        case QueueFull(key=None):
            return "Raise the limit: `inturn queues set --depth-max`."
        case QueueFull():
            return "Raise the limit: `inturn queues set --lane-depth-max`."
        case _:
            return ""

"""How the command ends: a number for scripts, and the lines on stderr that say why."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Iterator
from enum import IntEnum

import typer

from inturn.cli.plain import plain
from inturn.model.errors import (
    AppInterrupted,
    AppNotFound,
    BadInput,
    InturnError,
    QueueFull,
    StoreBusy,
    StoreError,
    UnknownJob,
    UnknownLane,
    UnknownQueue,
)
from inturn.policy.raised import describe


class ExitCode(IntEnum):
    """What the command leaves with."""

    OK = 0  # it was done
    NO = 1  # no such thing, too late, refused, or a problem was found
    USAGE = 2  # the command line, a payload or a setting is wrong
    STORE = 3  # the store cannot be reached or used
    LATER = 4  # the queue is full or the store busy: the same again may succeed later
    FAULT = 70  # a fault of inturn's own
    OUTPUT = 74  # the answer could not be written; what was asked for may have been done
    INTERRUPTED = 130  # Ctrl-C
    PIPE_CLOSED = 141  # whoever read the output has gone
    TERMINATED = 143  # SIGTERM: the demo; a worker by the second, while it finished what ran


def code_of(error: InturnError) -> ExitCode:
    """Return what to leave with after an error."""
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
    """Say on stderr what is wrong, and on a second line what to do."""
    print(f"inturn: {plain(text)}", file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)


@contextlib.contextmanager
def told(*, debug: bool) -> Iterator[None]:
    """Turn errors into a line on stderr and an exit code; with ``debug``, after the traceback."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception as error:
        if debug:
            traceback.print_exc()
        raise typer.Exit(_say(error)) from None


def _say(error: Exception) -> ExitCode:
    match error:
        case InturnError():
            complain(str(error), _hint(error))
            return code_of(error)
        case BrokenPipeError():
            return ExitCode.PIPE_CLOSED
        case OSError():  # most likely the output, and then the rest of it fails as well
            raise error
        case _:
            complain(
                f"unexpected {describe(error)}.",
                "This is a fault of inturn: run it again with --debug, and report what it prints.",
            )
            return ExitCode.FAULT


def _hint(error: InturnError) -> str:
    """Say which command helps, where the error itself leaves that to the reader."""
    match error:
        case AppNotFound(seen=seen):
            return "\n".join(plain(line) for line in seen)
        case UnknownQueue():
            return (
                "`inturn queues list` shows the queues there are; "
                "`inturn queues configure` makes one."
            )
        case UnknownLane():
            return "`inturn lanes list` shows a queue's lanes."
        case UnknownJob():
            return "`inturn jobs list` shows the jobs there are."
        case QueueFull(key=None):
            return "`inturn queues configure --depth-max` raises the bound."
        case QueueFull():
            return "`inturn queues configure --lane-depth-max` raises the bound."
        case _:
            return ""

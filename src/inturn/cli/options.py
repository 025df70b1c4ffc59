"""Arguments and options that several commands take."""

from __future__ import annotations

import getpass
import math
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import typer

from inturn.model.duration import parse_duration
from inturn.model.errors import BadInput
from inturn.model.job import JobState
from inturn.model.lane import LaneState

LIMIT_DEFAULT = 100


def flag(*names: str, **about: Any) -> Any:
    """Return an option that takes no value; without a metavar its help would show it a type."""
    return typer.Option(*names, metavar="", **about)


def seconds(given: str | float) -> float:
    """Return the seconds that ``1m30s`` stands for, or a plain number; refuse what is neither."""
    with suppress(ValueError):
        if math.isfinite(found := float(given)):
            return found
    try:
        return parse_duration(str(given))
    except BadInput as error:
        raise typer.BadParameter(str(error)) from None


def seconds_from(lowest: float, most: float = math.inf) -> Callable[[str | float], float]:
    """Return a reader of seconds that refuses less than so many, and more."""

    def read(given: str | float) -> float:
        found = seconds(given)
        if not found >= lowest:
            raise typer.BadParameter(f"{given} is too short; {lowest:g} s is the least.")
        if found > most:
            raise typer.BadParameter(f"{given} is too long; {most:,.0f} s is the most.")
        return found

    return read


def operator() -> str:
    """Return who is at the keyboard: the user and the machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "someone"
    return f"{user}@{socket.gethostname()}"


DebugOption = Annotated[
    bool,
    flag("--debug", help="Show the traceback of an error.", rich_help_panel="Every command"),
]
QueueArgument = Annotated[
    str, typer.Argument(metavar="QUEUE", help="The queue's name.", show_default=False)
]
KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", help="The lane's key.", show_default=False)
]
QueueOption = Annotated[
    str | None, typer.Option("--queue", help="Only of this queue.", show_default=False)
]
KindOption = Annotated[
    str | None, typer.Option("--kind", help="Only of this kind.", show_default=False)
]
KeyOption = Annotated[
    str | None, typer.Option("--key", help="Only of this key.", show_default=False)
]
JobStateOption = Annotated[
    JobState | None, typer.Option("--state", help="Only in this state.", show_default=False)
]
LaneStateOption = Annotated[
    LaneState | None, typer.Option("--state", help="Only in this state.", show_default=False)
]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="At most so many.")]
CursorOption = Annotated[
    str | None,
    typer.Option("--cursor", help="Go on where a list ended that had more.", show_default=False),
]
ByOption = Annotated[
    str,
    typer.Option(
        "--by", default_factory=operator, help="In whose name.", show_default="you@this machine"
    ),
]

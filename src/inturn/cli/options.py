"""Arguments and options that several commands take, as annotations."""

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

LIMIT_DEFAULT = 50


def seconds(given: str | float) -> float:
    """Return the seconds that ``1m30s`` or a plain number stands for."""
    with suppress(ValueError):
        if math.isfinite(found := float(given)):
            return found
    try:
        return parse_duration(str(given))
    except BadInput as error:
        raise typer.BadParameter(str(error)) from None


def seconds_from(lowest: float, most: float = math.inf) -> Callable[[str | float], float]:
    """Return a parser of seconds with a smallest and a largest value."""

    def read(given: str | float) -> float:
        found = seconds(given)
        if found < lowest:
            raise typer.BadParameter(f"{given} is too short; the least is {lowest:g}s.")
        if found > most:
            raise typer.BadParameter(f"{given} is too long; the most is {most:,.0f}s.")
        return found

    return read


def operator() -> str:
    """Return who is at the keyboard: user@machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "someone"
    return f"{user}@{socket.gethostname()}"


_WHERE = "Store"


def app_option(help: str) -> Any:
    """Return the option --app; what it does is not the same in every command."""
    return typer.Option(
        "--app",
        "-A",
        metavar="MODULE:APP",
        envvar="INTURN_APP",
        help=help,
        rich_help_panel=_WHERE,
    )


AppOption = Annotated[str | None, app_option("Use this App's store.")]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        envvar="INTURN_STORE",
        help="Use this store, whatever the App says.",
        rich_help_panel=_WHERE,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The lane's key.")]
QueueOption = Annotated[
    str | None, typer.Option("--queue", metavar="QUEUE", help="Only this queue.")
]
KindOption = Annotated[
    str | None, typer.Option("--kind", metavar="KIND", help="Only this kind of job.")
]
KeyOption = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only this key.")]
JobStateOption = Annotated[
    JobState | None,
    typer.Option("--state", metavar="STATE", help=f"Only this state: {', '.join(JobState)}."),
]
LaneStateOption = Annotated[
    LaneState | None,
    typer.Option("--state", metavar="STATE", help=f"Only this state: {', '.join(LaneState)}."),
]
LimitOption = Annotated[
    int, typer.Option("--limit", min=1, metavar="N", help="Print at most this many.")
]
CursorOption = Annotated[
    str | None, typer.Option("--cursor", metavar="TEXT", help="Go on from an earlier list's end.")
]
ByOption = Annotated[
    str,
    typer.Option(
        "--by",
        metavar="NAME",
        default_factory=operator,
        help="Who does this. Otherwise you@machine.",
        show_default=False,
    ),
]
AllOption = Annotated[
    bool, typer.Option("--all", help="All dead jobs, or all of --queue, --kind and --key.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="The job's id, or its last 8 characters.")
]
JobArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="JOB", help="Ids of jobs, or the last 8 characters of each."),
]


def examples(*lines: str) -> str:
    """Return the end of a command's help: how it is used."""
    return "\n".join(
        ["\b", "Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)]
    )

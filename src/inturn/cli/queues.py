"""``inturn queues``: list queues, change their settings, pause them, open their gates."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from inturn.cli.options import (
    AppOption,
    ByOption,
    JsonOption,
    QueueArgument,
    StoreOption,
    examples,
    seconds,
)
from inturn.cli.session import Session, check_queue, on_store
from inturn.cli.text import Cell, fields, name_text, plain, seconds_text, table
from inturn.model.lane import OnDead, QueueSettings, QueueStatus, Replay, SuspectsRule
from inturn.store.store import Store

app = typer.Typer(help="List queues, change their settings, pause them.", no_args_is_help=True)

_HEADS = ("queue…", ">gate", "paused by…", "settings¶")


_NONE: Any = object()  # what "none" is read as: None is an option that was not given


def _limit(text: str) -> Any:
    """Return the number that a text spells, or that there is none."""
    try:
        return _NONE if text == "none" else int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a whole number nor 'none'.") from None


def _rate(text: str) -> Any:
    """Return how many jobs start in how many seconds, or that there is no limit."""
    number, _, time = text.partition("/")
    if text == "none":
        return _NONE, _NONE
    if not (time and number.isdecimal()):
        raise typer.BadParameter(f"{text!r} is neither so many jobs in a time, 50/5m, nor 'none'.")
    return int(number), seconds(time)


RunningMaxOption = Annotated[
    Any,
    typer.Option(
        parser=_limit, metavar="N|none", help="Most jobs that run at once, over all workers."
    ),
]
RateOption = Annotated[
    Any,
    typer.Option(
        parser=_rate,
        metavar="N/TIME|none",
        help="Most jobs that start in a time, over all workers: 50/5m.",
    ),
]
ReplayOption = Annotated[
    Replay | None,
    typer.Option(
        help="After a crash: run the end of a key's lane again, or no job whose next has begun."
    ),
]
SuspectsOption = Annotated[
    SuspectsRule | None,
    typer.Option(help="Jobs whose worker was lost run alone, or again like any other."),
]
LocalOption = Annotated[
    bool | None,
    typer.Option("--local/--no-local", help="Only workers that name it claim from it."),
]


@on_store(app, "list", "inturn queues list")
def list_(context: typer.Context) -> None:
    """List queues, with the settings that were changed.

    `inturn status` says what is in them.
    """
    session: Session = context.obj
    found = session.run(lambda store: store.queues())
    session.answer(
        {"queues": [queue_document(status) for status in found]},
        table(_HEADS, map(_cells, found)) if found else "No queues yet.",
    )


@app.command(
    "set",
    epilog=examples(
        "inturn queues set orders --on-dead halt",
        "inturn queues set orders --depth-max none",
        "inturn queues set lightspeed --rate 50/5m --running-max 2",
    ),
)
def set_(
    queue: QueueArgument,
    on_dead: Annotated[
        OnDead | None,
        typer.Option(help="After a job of a key dies: skip to its next job, or halt its lane."),
    ] = None,
    depth_max: Annotated[
        Any, typer.Option(parser=_limit, metavar="N|none", help="Most jobs in the queue.")
    ] = None,
    lane_depth_max: Annotated[
        Any, typer.Option(parser=_limit, metavar="N|none", help="Most jobs of one key.")
    ] = None,
    keep_done_seconds: Annotated[
        float | None,
        typer.Option(
            "--keep-done", parser=seconds, metavar="TIME", help="How long done jobs can be read."
        ),
    ] = None,
    aging_seconds: Annotated[
        float | None,
        typer.Option(
            "--aging", parser=seconds, metavar="TIME", help="Waiting that equals one priority."
        ),
    ] = None,
    running_max: RunningMaxOption = None,
    rate: RateOption = None,
    replay: ReplayOption = None,
    suspects: SuspectsOption = None,
    local: LocalOption = None,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change a queue's settings; make the queue if it is new."""
    session = Session(app, store, as_json)
    given = {
        "on_dead": on_dead,
        "depth_max": depth_max,
        "lane_depth_max": lane_depth_max,
        "keep_done_seconds": keep_done_seconds,
        "aging_seconds": aging_seconds,
        "running_max": running_max,
        "rate": rate and rate[0],
        "rate_seconds": rate and rate[1],
        "replay": replay,
        "suspects": suspects,
        "local": local,
    }
    changes = {
        name: None if value is _NONE else value
        for name, value in given.items()
        if value is not None
    }

    settings = session.run(lambda store: store.configure(queue, changes))
    session.answer(
        {"queue": queue} | msgspec.structs.asdict(settings),
        fields([("queue", name_text(queue)), *_fields(settings)]),
    )


@on_store(app, "drop", "inturn queues drop orders", "inturn queues drop orders --all")
def drop(
    context: typer.Context,
    queue: QueueArgument,
    by: ByOption,
    everything: Annotated[
        bool, typer.Option("--all", help="Cancel what waits in it, and drop its dead letters.")
    ] = False,
) -> None:
    """Delete an empty queue, with its settings and its history."""
    session: Session = context.obj
    session.run(lambda store: store.drop_queue(queue, all=everything, by=by))
    _answer(session, queue, {"dropped": True}, f"Queue {queue!r} is gone.")


@on_store(app, "pause", "inturn queues pause orders")
def pause(context: typer.Context, queue: QueueArgument, by: ByOption) -> None:
    """Start no more jobs of a queue. Running ones finish; new ones are accepted."""
    session: Session = context.obj

    async def paused(store: Store) -> None:
        await check_queue(store, queue)
        await store.pause(queue, by=by)

    session.run(paused)
    _answer(session, queue, {"paused_by": by}, f"Queue {queue!r} is paused by {by}.")


@on_store(app, "resume", "inturn queues resume orders")
def resume(context: typer.Context, queue: QueueArgument) -> None:
    """Start jobs of a paused queue again."""
    session: Session = context.obj

    async def resumed(store: Store) -> None:
        await check_queue(store, queue)
        await store.resume(queue)

    session.run(resumed)
    _answer(session, queue, {"paused_by": None}, f"Queue {queue!r} is not paused.")


@on_store(app, "open-gate", "inturn queues open-gate walk 3")
def open_gate(
    context: typer.Context,
    queue: QueueArgument,
    round: Annotated[int, typer.Argument(metavar="ROUND", help="The highest round to open.")],
) -> None:
    """Let jobs up to a round start. A gate never closes."""
    session: Session = context.obj

    async def opened(store: Store) -> int:
        await check_queue(store, queue)
        return await store.open_gate(queue, round)

    gate = session.run(opened)
    _answer(session, queue, {"round": gate}, f"Queue {queue!r} is open up to round {gate}.")


def queue_document(status: QueueStatus) -> dict[str, Any]:
    """Return a queue with its settings, all on one level."""
    place = msgspec.structs.asdict(status)
    del place["settings"]
    return place | msgspec.structs.asdict(status.settings)


def _answer(session: Session, queue: str, what: dict[str, Any], said: str) -> None:
    session.answer({"queue": queue} | what, Text(plain(said)))


def _fields(settings: QueueSettings) -> list[tuple[str, Cell]]:
    return [
        ("on dead", str(settings.on_dead)),
        ("depth max", _limit_text(settings.depth_max)),
        ("lane depth max", _limit_text(settings.lane_depth_max)),
        ("keep done", seconds_text(settings.keep_done_seconds)),
        ("aging", seconds_text(settings.aging_seconds)),
        ("running max", _limit_text(settings.running_max)),
        ("rate", _rate_text(settings)),
        ("replay", str(settings.replay)),
        ("suspects", str(settings.suspects)),
        ("local", "yes" if settings.local else "no"),
    ]


def _limit_text(limit: int | None) -> str:
    return "none" if limit is None else f"{limit:,}"


def _changed(settings: QueueSettings) -> str:
    """Say which settings are not the default."""
    default = _fields(QueueSettings())
    return ", ".join(
        f"{name} {value}"
        for (name, value), usual in zip(_fields(settings), default, strict=True)
        if (name, value) != usual
    )


def _rate_text(settings: QueueSettings) -> str:
    if settings.rate is None or settings.rate_seconds is None:
        return "none"
    return f"{settings.rate:,}/{seconds_text(settings.rate_seconds)}"


def _cells(status: QueueStatus) -> tuple[Cell, ...]:
    return (
        name_text(status.name),
        str(status.gate),
        name_text(status.paused_by),
        _changed(status.settings),
    )

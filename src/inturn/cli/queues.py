"""``inturn queues``: look at queues, hold them, set how they behave, and open their gates."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import typer

from inturn.cli.call import Call, command
from inturn.cli.documents import queue_document
from inturn.cli.exits import ExitCode
from inturn.cli.help import Group
from inturn.cli.options import ByOption, QueueArgument, seconds
from inturn.cli.paging import insist_on_queue
from inturn.cli.plain import count, name_text, plain, seconds_text
from inturn.cli.sheet import Column
from inturn.model.lane import Gate, OnDead, QueueSettings, QueueStatus
from inturn.store.protocol import Store

app = typer.Typer(
    help="Look at queues, hold them, set how they behave, open gates.",
    no_args_is_help=True,
    cls=Group,
)

_COLUMNS = (
    Column("queue", shrinks=True),
    Column("on dead"),
    Column("depth max", right=True),
    Column("lane max", right=True),
    Column("keep done", right=True),
    Column("aging", right=True),
    Column("gate", right=True),
    Column("paused by", shrinks=True),
)

NO_BOUND: Literal["none"] = "none"
"""How a bound is spelled that is to be taken away."""


def bound(text: str) -> int | Literal["none"]:
    """Return the bound that a text spells."""
    if text == NO_BOUND:
        return NO_BOUND
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a whole number nor 'none'.") from None


DepthOption = Annotated[
    Any,
    typer.Option(
        "--depth-max",
        parser=bound,
        metavar="NUMBER|none",
        help="Jobs the queue may hold.",
        show_default=False,
    ),
]
LaneDepthOption = Annotated[
    Any,
    typer.Option(
        "--lane-depth-max",
        parser=bound,
        metavar="NUMBER|none",
        help="Jobs each lane may hold.",
        show_default=False,
    ),
]
KeepOption = Annotated[
    float | None,
    typer.Option(
        metavar="TIME",
        parser=seconds,
        help="How long done jobs stay readable.",
        show_default=False,
    ),
]
AgingOption = Annotated[
    float | None,
    typer.Option(
        metavar="TIME", parser=seconds, help="Waiting worth one priority.", show_default=False
    ),
]


@command(app, "list", "inturn queues list")
def _list(call: Call) -> None:
    """List the queues and how they behave. For what they hold: inturn status."""
    found = call.run(lambda store: store.queues())
    call.out.table(
        {"queues": [queue_document(status) for status in found]},
        _COLUMNS,
        [_cells(status) for status in found],
        empty="No queues yet.",
    )


@command(app, "pause", "inturn queues pause orders", "inturn queues pause orders --by ann")
def _pause(call: Call, queue: QueueArgument, by: ByOption) -> None:
    """Hold a queue. What runs goes on running, and jobs are still accepted."""

    async def paused(store: Store) -> None:
        await insist_on_queue(store, queue)
        await store.pause(queue, by=by)

    call.run(paused)
    text = plain(f"Queue {queue!r} is paused by {by}.")
    call.out.answer({"queue": queue, "paused_by": by}, text)


@command(app, "resume", "inturn queues resume orders")
def _resume(call: Call, queue: QueueArgument) -> None:
    """Let a paused queue go on."""

    async def resumed(store: Store) -> bool:
        found = await insist_on_queue(store, queue)
        await store.resume(queue)
        return found.paused_by is not None

    said = "goes on" if call.run(resumed) else "was not paused"
    text = plain(f"Queue {queue!r} {said}.")
    call.out.answer({"queue": queue, "paused_by": None}, text)


@command(
    app,
    "configure",
    "inturn queues configure orders --on-dead halt --depth-max 100000",
    "inturn queues configure orders --depth-max none",
)
def _configure(
    call: Call,
    queue: QueueArgument,
    on_dead: Annotated[
        OnDead | None,
        typer.Option(
            help="What a lane does when its head is buried: go on, or wait for a person.",
            show_default=False,
        ),
    ] = None,
    depth_max: DepthOption = None,
    lane_depth_max: LaneDepthOption = None,
    keep_done_seconds: KeepOption = None,
    aging_seconds: AgingOption = None,
) -> None:
    """Set how a queue behaves, making it if need be. What is not named stays as it is."""
    given = {
        "on_dead": on_dead,
        "depth_max": depth_max,
        "lane_depth_max": lane_depth_max,
        "keep_done_seconds": keep_done_seconds,
        "aging_seconds": aging_seconds,
    }
    changes = {
        name: None if value == NO_BOUND else value
        for name, value in given.items()
        if value is not None
    }
    settings = call.run(lambda store: _configured(store, queue, changes))
    call.out.fields(
        {"queue": queue} | msgspec.structs.asdict(settings),
        [("queue", name_text(queue)), *_settings_fields(settings)],
    )


@command(app, "open-gate", "inturn queues open-gate walk 3")
def _open_gate(
    call: Call,
    queue: QueueArgument,
    round: Annotated[int, typer.Argument(metavar="ROUND", help="The highest round to open.")],
) -> None:
    """Open a queue's gate as far as a round. A gate never closes."""

    async def opened(store: Store) -> int:
        await insist_on_queue(store, queue)
        return await store.open_gate(queue, round)

    gate = call.run(opened)
    text = plain(f"The gate of queue {queue!r} is open as far as round {gate}.")
    call.out.answer({"queue": queue, "round": gate}, text)


@command(app, "advance-gate", "inturn queues advance-gate walk")
def _advance_gate(call: Call, queue: QueueArgument) -> None:
    """Open the next round that has jobs, if nothing of the open rounds is unfinished.

    Leaves with 1 if the gate stays where it is.
    """
    gate = call.run(lambda store: store.advance_gate(queue))
    document = {"queue": queue} | msgspec.structs.asdict(gate)
    call.out.answer(document, plain(_gate_text(queue, gate)))
    if not gate.advanced:
        raise typer.Exit(ExitCode.NO)


async def _configured(store: Store, queue: str, changes: dict[str, Any]) -> QueueSettings:
    """Change some of a queue's settings; return all of them."""
    known = {status.name: status.settings for status in await store.queues()}
    settings = msgspec.structs.replace(known.get(queue, QueueSettings()), **changes)
    await store.configure(queue, settings)
    return settings


def _gate_text(queue: str, gate: Gate) -> str:
    where = f"The gate of queue {queue!r} is open as far as round {gate.round}"
    if gate.advanced:
        return f"{where} now."
    if gate.exhausted:
        return f"{where}: nothing is unfinished, and no later round waits."
    return f"{where}: {count(gate.unfinished, 'job')} of the open rounds unfinished."


def _settings_fields(settings: QueueSettings) -> list[tuple[str, str]]:
    return [
        ("on dead", str(settings.on_dead)),
        ("depth max", _bound_text(settings.depth_max)),
        ("lane depth max", _bound_text(settings.lane_depth_max)),
        ("keep done", seconds_text(settings.keep_done_seconds)),
        ("aging", seconds_text(settings.aging_seconds)),
    ]


def _bound_text(bound: int | None) -> str:
    return NO_BOUND if bound is None else f"{bound:,}"


def _cells(status: QueueStatus) -> tuple[str, ...]:
    settings = status.settings
    return (
        name_text(status.name),
        str(settings.on_dead),
        _bound_text(settings.depth_max),
        _bound_text(settings.lane_depth_max),
        seconds_text(settings.keep_done_seconds),
        seconds_text(settings.aging_seconds),
        str(status.gate),
        name_text(status.paused_by),
    )

"""``inturn lanes``: list, pause and unblock lanes."""

from __future__ import annotations

from typing import Any

import msgspec
import typer
from rich.text import Text

from inturn.cli.options import (
    LIMIT_DEFAULT,
    ByOption,
    CursorOption,
    KeyArgument,
    KeyOption,
    LaneStateOption,
    LimitOption,
    QueueArgument,
)
from inturn.cli.session import Session, check_queue, collect, on_store
from inturn.cli.text import Cell, name_text, plain, short_id, state_text, time_text
from inturn.model.lane import LaneState, LaneView
from inturn.store.paging import Page
from inturn.store.store import Store

app = typer.Typer(
    help="List, pause and unblock lanes (one ordered line per key).", no_args_is_help=True
)

_HEADS = ("key…", "state", ">waiting", "next kind…", ">round", "note¶")


@on_store(app, "list", "inturn lanes list orders --state halted")
def list_(
    context: typer.Context,
    queue: QueueArgument,
    state: LaneStateOption = None,
    key: KeyOption = None,
    limit: LimitOption = LIMIT_DEFAULT,
    cursor: CursorOption = None,
) -> None:
    """List a queue's lanes. Jobs without a key share the open lanes."""
    session: Session = context.obj

    async def read(store: Store) -> Page[LaneView]:
        await check_queue(store, queue)
        return await collect(
            store.lanes,
            queue=queue,
            key=key,
            cursor=cursor,
            limit=limit,
            wanted=lambda lane: state is None or lane.state is state,
        )

    session.page(
        "lanes",
        session.run(read),
        document=msgspec.structs.asdict,
        heads=_HEADS,
        cells=_cells,
        empty="No lanes.",
    )


@on_store(app, "pause", "inturn lanes pause orders customer-7")
def pause(context: typer.Context, queue: QueueArgument, key: KeyArgument, by: ByOption) -> None:
    """Start no more jobs of a key. Running ones finish; new ones are accepted."""
    session: Session = context.obj
    session.run(lambda store: store.pause(queue, key=key, by=by))
    _answer(session, queue, key, {"paused_by": by}, f"is paused by {by}")


@on_store(app, "resume", "inturn lanes resume orders customer-7")
def resume(context: typer.Context, queue: QueueArgument, key: KeyArgument) -> None:
    """Start jobs of a paused key again. A halted lane needs retry, skip or drop."""
    session: Session = context.obj
    session.run(lambda store: store.resume(queue, key=key))
    _answer(session, queue, key, {"paused_by": None}, "is not paused")


@on_store(app, "retry", "inturn lanes retry orders customer-7")
def retry(context: typer.Context, queue: QueueArgument, key: KeyArgument) -> None:
    """Run the dead job of a halted lane again, in its place."""
    session: Session = context.obj
    job = session.run(lambda store: store.retry_lane(queue, key))
    _answer(session, queue, key, {"job": job}, f"goes on; job {short_id(job)} runs again")


@on_store(app, "skip", "inturn lanes skip orders customer-7")
def skip(context: typer.Context, queue: QueueArgument, key: KeyArgument) -> None:
    """Go on behind the dead job of a halted lane. It stays listed."""
    session: Session = context.obj
    job = session.run(lambda store: store.skip_lane(queue, key))
    _answer(session, queue, key, {"job": job}, f"goes on; job {short_id(job)} stays dead")


@on_store(app, "drop", "inturn lanes drop orders customer-7")
def drop(context: typer.Context, queue: QueueArgument, key: KeyArgument, by: ByOption) -> None:
    """Give up the dead job of a halted lane, and go on."""
    session: Session = context.obj
    job = session.run(lambda store: store.drop_lane(queue, key, by=by))
    _answer(session, queue, key, {"job": job}, f"goes on; job {short_id(job)} is cancelled")


def _answer(session: Session, queue: str, key: str, what: dict[str, Any], said: str) -> None:
    text = plain(f"Lane {key!r} of queue {queue!r} {said}.")
    session.answer({"queue": queue, "key": key} | what, Text(text))


def _cells(lane: LaneView) -> tuple[Cell, ...]:
    return (
        "(open)" if lane.key is None else name_text(lane.key),
        state_text(lane.state),
        f"{lane.depth:,}",
        name_text(lane.kind),
        str(lane.round),
        _note(lane),
    )


def _note(lane: LaneView) -> str:
    """Say what a lane waits for."""
    if lane.halted_job is not None:
        return f"on dead job {short_id(lane.halted_job)}"
    if lane.paused_by is not None:
        return name_text(f"paused by {lane.paused_by}")
    if lane.state is LaneState.GATED:
        return f"until round {lane.round} opens"
    return f"until {time_text(lane.ready_at)}" if lane.ready_at is not None else ""

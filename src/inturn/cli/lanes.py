"""``inturn lanes``: list, pause and unblock lanes."""

from __future__ import annotations

from typing import Any

import msgspec
import typer
from rich.text import Text

from inturn.cli.options import (
    LIMIT_DEFAULT,
    AppOption,
    ByOption,
    CursorOption,
    JsonOption,
    KeyArgument,
    KeyOption,
    LaneStateOption,
    LimitOption,
    QueueArgument,
    StoreOption,
    examples,
)
from inturn.cli.session import Session, check_queue, collect
from inturn.cli.text import Cell, name_text, plain, short_id, state_text, time_text
from inturn.model.lane import LaneState, LaneView
from inturn.store.paging import Page
from inturn.store.store import Store

app = typer.Typer(
    help="List, pause and unblock lanes (one ordered line per key).", no_args_is_help=True
)

_HEADS = ("key…", "state", ">waiting", "next kind…", ">round", "note¶")


@app.command("list", epilog=examples("inturn lanes list orders --state halted"))
def list_(
    queue: QueueArgument,
    state: LaneStateOption = None,
    key: KeyOption = None,
    limit: LimitOption = LIMIT_DEFAULT,
    cursor: CursorOption = None,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List a queue's lanes. Jobs without a key share the open lanes."""
    session = Session(app, store, as_json)

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


@app.command("pause", epilog=examples("inturn lanes pause orders customer-7"))
def pause(
    queue: QueueArgument,
    key: KeyArgument,
    by: ByOption,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start no more jobs of a key. Running ones finish; new ones are accepted."""
    session = Session(app, store, as_json)
    session.run(lambda store: store.pause(queue, key=key, by=by))
    _answer(session, queue, key, {"paused_by": by}, f"is paused by {by}")


@app.command("resume", epilog=examples("inturn lanes resume orders customer-7"))
def resume(
    queue: QueueArgument,
    key: KeyArgument,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start jobs of a paused key again. A halted lane needs retry, skip or drop."""
    session = Session(app, store, as_json)
    session.run(lambda store: store.resume(queue, key=key))
    _answer(session, queue, key, {"paused_by": None}, "is not paused")


@app.command("retry", epilog=examples("inturn lanes retry orders customer-7"))
def retry(
    queue: QueueArgument,
    key: KeyArgument,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the dead job of a halted lane again, in its place."""
    session = Session(app, store, as_json)
    job = session.run(lambda store: store.retry_lane(queue, key))
    _answer(session, queue, key, {"job": job}, f"goes on; job {short_id(job)} runs again")


@app.command("skip", epilog=examples("inturn lanes skip orders customer-7"))
def skip(
    queue: QueueArgument,
    key: KeyArgument,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go on behind the dead job of a halted lane. It stays listed."""
    session = Session(app, store, as_json)
    job = session.run(lambda store: store.skip_lane(queue, key))
    _answer(session, queue, key, {"job": job}, f"goes on; job {short_id(job)} stays dead")


@app.command("drop", epilog=examples("inturn lanes drop orders customer-7"))
def drop(
    queue: QueueArgument,
    key: KeyArgument,
    by: ByOption,
    app: AppOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give up the dead job of a halted lane, and go on."""
    session = Session(app, store, as_json)
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

"""``inturn lanes``: look at lanes, hold them, and lead a halted one on."""

from __future__ import annotations

import shlex
from typing import Any

import typer

from inturn.cli.call import Call, command
from inturn.cli.help import Group
from inturn.cli.jobs import ID
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
from inturn.cli.paging import insist_on_queue, pages
from inturn.cli.plain import count, name_text, plain, time_text
from inturn.cli.sheet import Column, state_text
from inturn.model.errors import UnknownLane
from inturn.model.job import JobState
from inturn.model.lane import LaneState, LaneView
from inturn.store.protocol import Store

app = typer.Typer(
    help="Look at lanes, hold them, lead a halted one on.", no_args_is_help=True, cls=Group
)

_COLUMNS = (
    Column("key", shrinks=True),
    Column("state"),
    Column("depth", right=True),
    Column("next kind", shrinks=True),
    Column("round", right=True, wide=True),
    Column("priority", right=True, wide=True),
    Column("waits for", shrinks=True, least=len(ID)),  # a job's id, which stays whole
)

# Which job of a lane tells why it stands: the one that keeps the others waiting, if there is one.
_TELLING = {LaneState.LEASED: JobState.RUNNING, LaneState.SLEEPING: JobState.RETRYING}


@command(
    app,
    "list",
    "inturn lanes list orders",
    "inturn lanes list orders --state halted",
)
def _list(
    call: Call,
    queue: QueueArgument,
    state: LaneStateOption = None,
    key: KeyOption = None,
    limit: LimitOption = LIMIT_DEFAULT,
    cursor: CursorOption = None,
) -> None:
    """List a queue's lanes, oldest first. Lanes without a key are open ones."""

    async def listed(store: Store) -> None:
        await insist_on_queue(store, queue)
        found = pages(
            lambda cursor, rows_max: store.lanes(queue, key=key, cursor=cursor, rows_max=rows_max),
            cursor=cursor,
            limit=limit,
            wanted=lambda lane: state is None or lane.state is state,
        )
        await call.out.pages(
            "lanes",
            found,
            document=_document,
            columns=_COLUMNS,
            cells=_cells,
            empty="No such lanes.",
        )

    call.run(listed)


@command(app, "explain", "inturn lanes explain orders customer-7")
def _explain(call: Call, queue: QueueArgument, key: KeyArgument) -> None:
    """Say what a keyed lane does, and what its jobs wait for."""
    lane, said = call.run(lambda store: _explained(store, queue, key))
    what = f"Lane {key!r} of queue {queue!r} is {lane.state}; {count(lane.depth, 'job')} in line."
    where = shlex.join(["--", queue, key]) if key.startswith("-") else shlex.join([queue, key])
    hint = f"Lead it on with `inturn lanes retry {where}`, or skip, or drop."
    lines = [what, said or "", hint if lane.state is LaneState.HALTED else ""]
    call.out.answer(
        _document(lane) | {"explanation": said}, plain("\n".join(line for line in lines if line))
    )


@command(app, "pause", "inturn lanes pause orders customer-7 --by ann")
def _pause(call: Call, queue: QueueArgument, key: KeyArgument, by: ByOption) -> None:
    """Hold a keyed lane. What runs goes on running, and jobs are still accepted."""
    call.run(lambda store: store.pause(queue, key=key, by=by))
    call.out.answer(
        {"queue": queue, "key": key, "paused_by": by},
        plain(f"Lane {key!r} of queue {queue!r} is paused by {by}."),
    )


@command(app, "resume", "inturn lanes resume orders customer-7")
def _resume(call: Call, queue: QueueArgument, key: KeyArgument) -> None:
    """Let a paused lane go on. A halted one stays halted."""

    async def resumed(store: Store) -> bool:
        found = (await store.lanes(queue, key=key)).rows
        await store.resume(queue, key=key)
        return any(lane.paused_by is not None for lane in found)

    said = "goes on" if call.run(resumed) else "was not paused"
    call.out.answer(
        {"queue": queue, "key": key, "paused_by": None},
        plain(f"Lane {key!r} of queue {queue!r} {said}."),
    )


@command(app, "retry", "inturn lanes retry orders customer-7")
def _retry(call: Call, queue: QueueArgument, key: KeyArgument) -> None:
    """Run a halted lane's head again, in its place, with fresh attempts."""
    job = call.run(lambda store: store.retry_lane(queue, key))
    call.out.answer(
        {"queue": queue, "key": key, "job": job}, plain(f"Lane {key!r} runs job {job} again.")
    )


@command(app, "skip", "inturn lanes skip orders customer-7")
def _skip(call: Call, queue: QueueArgument, key: KeyArgument) -> None:
    """Leave a halted lane's head among the dead letters, and go on with the next."""
    job = call.run(lambda store: store.skip_lane(queue, key))
    call.out.answer(
        {"queue": queue, "key": key, "job": job},
        plain(f"Lane {key!r} goes on; job {job} stays a dead letter."),
    )


@command(app, "drop", "inturn lanes drop orders customer-7")
def _drop(call: Call, queue: QueueArgument, key: KeyArgument, by: ByOption) -> None:
    """Cancel a halted lane's head for good, and go on with the next."""
    job = call.run(lambda store: store.drop_lane(queue, key, by=by))
    call.out.answer(
        {"queue": queue, "key": key, "job": job},
        plain(f"Lane {key!r} goes on; job {job} is cancelled."),
    )


async def _explained(store: Store, queue: str, key: str) -> tuple[LaneView, str | None]:
    """Return a lane, and the store's sentence about the job that tells most about it."""
    for lane in (await store.lanes(queue, key=key)).rows:
        job = lane.halted_job
        if job is None:
            state = _TELLING.get(lane.state, JobState.WAITING)
            page = await store.jobs(state=state, queue=queue, key=key, rows_max=1)
            job = next((view.job.id for view in page.rows), None)
        return lane, None if job is None else f"Job {job}: {await store.explain(job)}"
    raise UnknownLane(queue, key)


def _document(lane: LaneView) -> dict[str, Any]:
    return {name: getattr(lane, name) for name in lane.__struct_fields__}


def _cells(lane: LaneView) -> tuple[Any, ...]:
    return (
        "(open)" if lane.key is None else name_text(lane.key),
        state_text(lane.state),
        f"{lane.depth:,}",
        name_text(lane.kind),
        str(lane.round),
        str(lane.priority),
        _waits_for(lane),
    )


def _waits_for(lane: LaneView) -> str:
    if lane.halted_job is not None:
        return str(lane.halted_job)
    if lane.paused_by is not None:
        return name_text(f"resume, paused by {lane.paused_by}")
    if lane.state is LaneState.GATED:
        return f"round {lane.round}"
    return time_text(lane.ready_at)

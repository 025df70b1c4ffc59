"""``inturn jobs``: look for jobs, look at one, ask why it is where it is, cancel it."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import typer
from rich.text import Text

from inturn.cli.call import Call, command
from inturn.cli.documents import job_document, raw
from inturn.cli.exits import ExitCode, complain
from inturn.cli.help import Group
from inturn.cli.ids import JobArgument, on_job
from inturn.cli.options import (
    LIMIT_DEFAULT,
    ByOption,
    CursorOption,
    JobStateOption,
    KeyOption,
    KindOption,
    LimitOption,
    QueueOption,
)
from inturn.cli.paging import insist_on_queue, pages
from inturn.cli.plain import age, name_text, one_line, plain, seconds_text, time_text
from inturn.cli.sheet import Column, state_text
from inturn.model.errors import ResultLost
from inturn.model.job import AttemptError, JobState, JobView
from inturn.model.lane import QueueStatus
from inturn.store.protocol import Store

app = typer.Typer(
    help="Look for jobs, at one of them, and cancel it.", no_args_is_help=True, cls=Group
)

ID = "0199f3a2-7c1e-7abc-8def-0123456789ab"

_COLUMNS = (
    Column("job"),
    Column("state"),
    Column("queue", shrinks=True),
    Column("kind", shrinks=True),
    Column("key", shrinks=True),
    Column("age", right=True, wide=True),
    Column("attempt", right=True, wide=True),
    Column("what", shrinks=True, wide=True),
)


@command(
    app,
    "list",
    "inturn jobs list --queue orders --state waiting",
    "inturn jobs list --key customer-7 --limit 20 --json",
)
def _list(
    call: Call,
    state: JobStateOption = None,
    queue: QueueOption = None,
    kind: KindOption = None,
    key: KeyOption = None,
    limit: LimitOption = LIMIT_DEFAULT,
    cursor: CursorOption = None,
) -> None:
    """List jobs, oldest first."""

    async def listed(store: Store) -> None:
        if queue is not None:
            await insist_on_queue(store, queue)
        queues = {status.name: status for status in await store.queues()}
        now = await store.now()
        found = pages(
            lambda cursor, rows_max: store.jobs(
                state=state, queue=queue, kind=kind, key=key, cursor=cursor, rows_max=rows_max
            ),
            cursor=cursor,
            limit=limit,
        )
        await call.out.pages(
            "jobs",
            found,
            document=job_document,
            columns=_COLUMNS,
            cells=lambda view: _cells(view, queues.get(view.job.queue), now),
            empty="No such jobs.",
        )

    call.run(listed)


@command(app, "show", f"inturn jobs show {ID}")
def _show(call: Call, job: JobArgument) -> None:
    """Show a job: its state, its place, its options, payload, errors and result."""

    async def read(store: Store, id: UUID) -> tuple[JobView, str | None, str | None]:
        view = await store.job(id)
        try:
            return view, await store.result(id), None
        except ResultLost as error:
            return view, None, error.reason

    _, (view, result, lost) = on_job(call, job, read)
    shown = result if lost is None else f"could not be kept: {lost}"
    call.out.fields(
        job_document(view) | {"result": raw(result), "result_lost": lost}, job_fields(view, shown)
    )


@command(app, "explain", f"inturn jobs explain {ID}")
def _explain(call: Call, job: JobArgument) -> None:
    """Say in one sentence why a job is where it is."""
    id, said = on_job(call, job, lambda store, id: store.explain(id))
    call.out.answer({"job": id, "explanation": said}, plain(said))


@command(app, "cancel", f"inturn jobs cancel {ID}", f"inturn jobs cancel {ID} --by ann")
def _cancel(call: Call, job: JobArgument, by: ByOption) -> None:
    """Cancel a job that is not running. Jobs that wait for it are buried with the reason.

    Leaves with 1 if it is too late: the job is running, done or dead.
    """
    id, state = on_job(call, job, lambda store, id: store.cancel(id, by=by))
    call.out.answer({"job": id, "state": state}, f"{id} is {state}.")
    if state is not JobState.CANCELLED:
        complain(f"too late to cancel job {id}.", _TOO_LATE.get(state, "").format(job=id))
        raise typer.Exit(ExitCode.NO)


_TOO_LATE = {
    JobState.DEAD: "It is a dead letter: `inturn dead drop {job}` cancels it for good.",
    JobState.RUNNING: "Wait until it has settled, then look with `inturn jobs show {job}`.",
}


def job_fields(view: JobView, result: str | None = None) -> list[tuple[str, str | Text]]:
    """Return what a person asks about a job, in the order of asking."""
    job = view.job
    return [
        ("job", str(job.id)),
        ("state", state_text(view.state)),
        ("reason", plain(view.reason or "")),
        ("queue", name_text(job.queue)),
        ("kind", name_text(job.kind)),
        ("key", name_text(job.key)),
        ("accepted", time_text(job.enqueued_at)),
        ("died", time_text(view.died_at)),
        ("due", time_text(view.run_at)),
        ("place", _place(view)),
        ("waits for", "\n".join(str(one) for one in view.waits_for)),
        ("worker", name_text(view.worker)),
        ("lease until", time_text(view.leased_until)),
        ("progress", _progress(view)),
        ("attempts", f"{view.attempt} of {job.attempts_max}" if view.attempt else ""),
        ("suspect", "yes: it runs alone" if view.suspect else ""),
        ("priority", str(job.priority) if job.priority else ""),
        ("round", str(job.round) if job.round else ""),
        ("timeout", seconds_text(job.timeout_seconds)),
        ("payload", plain(job.payload)),
        ("result", plain(result or "")),
        ("errors", "\n".join(_error(error) for error in view.errors)),
    ]


def _place(view: JobView) -> str:
    if view.position is None:
        return ""
    place = f"{view.position} of lane {view.lane}"
    if not view.ahead:
        return place
    waits = "" if view.job.key is not None else "; it waits for none of them"
    return f"{place}, {_turn(view)}{waits}"


def _turn(view: JobView) -> str:
    """Say what comes before a job: in line, which it waits for, or only to be claimed."""
    if not view.ahead:
        return "first in line"
    return f"behind {view.ahead}" if view.job.key is not None else f"claimed after {view.ahead}"


def _progress(view: JobView) -> str:
    said = view.progress
    if said is None:
        return ""
    return plain(f"{said.fraction:.0%} {said.note}".rstrip() + f", said {time_text(said.at)}")


def _error(error: AttemptError) -> str:
    where = f"attempt {error.attempt}, {time_text(error.at)}, on {error.worker}"
    trace = "" if error.traceback is None else f"\n{error.traceback}"
    return plain(f"{where}:\n{error.error}{trace}")


def _cells(view: JobView, queue: QueueStatus | None, now: datetime) -> tuple[Any, ...]:
    job = view.job
    return (
        str(job.id),
        state_text(view.state),
        name_text(job.queue),
        name_text(job.kind),
        name_text(job.key),
        age(job.enqueued_at, now),
        f"{view.attempt}/{job.attempts_max}" if view.attempt else "",
        _what(view, queue),
    )


def _what(view: JobView, queue: QueueStatus | None) -> str:
    """Say the one thing that tells most about a job in its state."""
    match view.state:
        case JobState.RUNNING:
            far = "" if view.progress is None else f"{view.progress.fraction:.0%} "
            return name_text(f"{far}on {view.worker}")
        case JobState.SCHEDULED | JobState.RETRYING:
            error = view.errors[-1].error if view.errors else ""
            return one_line(f"at {time_text(view.run_at)} {error}")
        case JobState.BLOCKED:
            return f"waits for {len(view.waits_for)}"
        case JobState.WAITING:
            turn = "ready" if view.ahead is None else _turn(view)  # given back: in no line
            return turn if queue is None else _held(view, queue) or turn
        case _:
            return one_line(view.reason)


def _held(view: JobView, queue: QueueStatus) -> str:
    """Say what holds a waiting job back although nothing need stand before it, if it is so."""
    if queue.paused_by is not None:
        return f"queue paused by {name_text(queue.paused_by)}"
    if view.job.round > queue.gate:
        return f"held until round {view.job.round}"
    return ""

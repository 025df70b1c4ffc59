"""``inturn jobs`` and ``inturn dead``: list and show jobs, cancel them, retry or drop dead ones."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import typer
from rich.text import Text

from inturn.cli.exits import ExitCode, complain
from inturn.cli.options import (
    LIMIT_DEFAULT,
    AllOption,
    ByOption,
    CursorOption,
    JobArgument,
    JobArguments,
    JobStateOption,
    KeyOption,
    KindOption,
    LimitOption,
    QueueOption,
    YesOption,
)
from inturn.cli.session import Session, check_queue, collect, find_job, on_store
from inturn.cli.text import (
    Cell,
    age,
    count,
    fields,
    name_text,
    one_line,
    plain,
    seconds_text,
    short_id,
    state_text,
    time_text,
)
from inturn.model import bounds
from inturn.model.errors import BadInput, ResultLost
from inturn.model.job import AttemptError, DeadLetter, Job, JobState, JobView
from inturn.model.lane import QueueStatus
from inturn.store.store import Store

app = typer.Typer(help="List, explain, cancel and retry jobs.", no_args_is_help=True)
dead = typer.Typer(help="List, retry or drop dead jobs (dead letters).", no_args_is_help=True)

_HEADS = ("job", "state", "queue…", "kind…", "key…", ">age", ">tries", "note¶")
_DEAD_HEADS = ("job", "queue…", "kind…", "key…", ">died", ">tries", "reason¶")


@on_store(app, "list", "inturn jobs list --state dead", "inturn jobs list --key customer-7")
def list_(
    context: typer.Context,
    state: JobStateOption = None,
    every: bool = typer.Option(False, "--all", help="Done and cancelled jobs, too."),
    queue: QueueOption = None,
    kind: KindOption = None,
    key: KeyOption = None,
    limit: LimitOption = LIMIT_DEFAULT,
    cursor: CursorOption = None,
) -> None:
    """List unfinished and dead jobs, newest first."""
    session: Session = context.obj

    async def read(store: Store) -> tuple[Any, dict[str, QueueStatus], datetime]:
        await check_queue(store, queue)
        page = await collect(
            store.jobs,
            state=state,
            finished=every,
            queue=queue,
            kind=kind,
            key=key,
            cursor=cursor,
            limit=limit,
        )
        return page, {status.name: status for status in await store.queues()}, await store.now()

    page, statuses, now = session.run(read)
    session.page(
        "jobs",
        page,
        document=job_document,
        heads=_HEADS,
        cells=lambda view: _cells(view, statuses.get(view.job.queue), now),
        empty="No jobs." if every or state else "No unfinished jobs. For all: --all.",
        without=_said(state=state, queue=queue, kind=kind, key=key),
    )


@on_store(app, "show", "inturn jobs show 5f3a9c1e")
def show(context: typer.Context, job: JobArgument) -> None:
    """Show a job: state, options, payload, errors and result."""
    session: Session = context.obj

    async def read(store: Store) -> tuple[JobView, str | None, str | None]:
        view = await store.job(await find_job(store, job))
        try:
            return view, await store.result(view.job.id), None
        except ResultLost as error:
            return view, None, error.reason

    view, result, lost = session.run(read)
    shown = result if lost is None else f"could not be kept: {lost}"
    session.answer(
        job_document(view) | {"result": _raw(result), "result_lost": lost},
        fields(_fields(view, shown)),
    )


@on_store(app, "explain", "inturn jobs explain 5f3a9c1e")
def explain(context: typer.Context, job: JobArgument) -> None:
    """Say why a job is where it is, and what it waits for."""
    session: Session = context.obj

    async def read(store: Store) -> tuple[UUID, str]:
        id = await find_job(store, job)
        return id, await store.explain(id)

    id, said = session.run(read)
    session.answer({"job": id, "explanation": said}, Text(plain(said)))


@on_store(app, "cancel", "inturn jobs cancel 5f3a9c1e")
def cancel(context: typer.Context, job: JobArgument, by: ByOption) -> None:
    """Cancel a job that has not started. Jobs that wait for it are marked dead."""
    session: Session = context.obj

    async def cancelled(store: Store) -> tuple[UUID, JobState]:
        id = await find_job(store, job)
        return id, await store.cancel(id, by=by)

    id, state = session.run(cancelled)
    session.answer({"job": id, "state": state}, f"Job {short_id(id)} is {state}.")
    if state is not JobState.CANCELLED:
        too_late = {
            JobState.DEAD: f"To drop a dead job: `inturn jobs drop {short_id(id)}`.",
            JobState.RUNNING: f"To see how it ends: `inturn jobs show {short_id(id)}`.",
        }
        complain(f"too late to cancel job {short_id(id)}: it is {state}.", too_late.get(state, ""))
        raise typer.Exit(ExitCode.NO)


@on_store(dead, "list", "inturn dead list --queue orders")
def dead_list(
    context: typer.Context,
    queue: QueueOption = None,
    kind: KindOption = None,
    key: KeyOption = None,
    limit: LimitOption = LIMIT_DEFAULT,
    cursor: CursorOption = None,
) -> None:
    """List dead jobs, the latest death first."""
    session: Session = context.obj

    async def read(store: Store) -> tuple[Any, datetime]:
        await check_queue(store, queue)
        page = await collect(
            store.dead_letters, queue=queue, kind=kind, key=key, cursor=cursor, limit=limit
        )
        return page, await store.now()

    page, now = session.run(read)
    session.page(
        "dead",
        page,
        document=dead_document,
        heads=_DEAD_HEADS,
        cells=lambda letter: _dead_cells(letter, now),
        empty="No dead jobs.",
        without=_said(queue=queue, kind=kind, key=key),
    )


def retry(
    context: typer.Context,
    jobs: JobArguments = None,
    every: AllOption = False,
    queue: QueueOption = None,
    kind: KindOption = None,
    key: KeyOption = None,
    yes: YesOption = False,
) -> None:
    """Run dead jobs again, with fresh attempts.

    A job that halts its lane runs in its old place; others go to the end of their lane.
    """
    session: Session = context.obj
    filters = {"queue": queue, "kind": kind, "key": key}
    chosen = _chosen(session, jobs, every, filters, question=None if yes else "Retry")
    _decide(session, chosen, lambda store, ids: store.dead_retry(ids), "retried")


def drop(
    context: typer.Context,
    by: ByOption,
    jobs: JobArguments = None,
    every: AllOption = False,
    queue: QueueOption = None,
    kind: KindOption = None,
    key: KeyOption = None,
    yes: YesOption = False,
) -> None:
    """Give up dead jobs for good. Jobs that wait for them are marked dead."""
    session: Session = context.obj
    filters = {"queue": queue, "kind": kind, "key": key}
    chosen = _chosen(session, jobs, every, filters, question=None if yes else "Drop")
    _decide(session, chosen, lambda store, ids: store.dead_drop(ids, by=by), "dropped")


for _group, _name in ((app, "jobs"), (dead, "dead")):
    for _verb, _function in (("retry", retry), ("drop", drop)):
        _use = f"inturn {_name} {_verb}"
        on_store(_group, _verb, f"{_use} 5f3a9c1e", f"{_use} --all --queue orders")(_function)


def _chosen(
    session: Session,
    jobs: Sequence[str] | None,
    every: bool,
    filters: Mapping[str, Any],
    *,
    question: str | None,
) -> list[UUID]:
    """Return the jobs that were named; or with --all every dead one, if the person agrees."""
    if bool(jobs) == every:
        raise BadInput("name jobs, or pass --all: one of the two.")
    if jobs and any(filters.values()):
        raise BadInput("--queue, --kind and --key go with --all.")
    if every and question is not None and not sys.stdin.isatty():
        raise BadInput("--all asks before it acts. Where nobody can answer, pass --yes.")

    async def read(store: Store) -> list[UUID]:
        if jobs:
            return list(dict.fromkeys([await find_job(store, job) for job in jobs]))
        await check_queue(store, filters["queue"])
        page = await collect(store.dead_letters, **filters, limit=sys.maxsize)
        # The earliest death first, so that jobs of a key keep their order.
        return [letter.job.id for letter in reversed(page.rows)]

    found = session.run(read)
    if every and found and question is not None:
        asked = f"{question} {count(len(found), 'dead job')}?"
        if not typer.confirm(asked, err=True):
            complain("nothing was done.")
            raise typer.Exit(ExitCode.NO)
    return found


def _decide(
    session: Session,
    jobs: Sequence[UUID],
    verb: Callable[[Store, Sequence[UUID]], Awaitable[list[UUID]]],
    said: str,
) -> None:
    """Retry or drop jobs, in batches, and name those that were not dead."""

    async def decided(store: Store) -> list[UUID]:
        done: list[UUID] = []
        for start in range(0, len(jobs), bounds.PAGE_ROWS_MAX):
            done += await verb(store, jobs[start : start + bounds.PAGE_ROWS_MAX])
        return done

    done = session.run(decided)
    others = [job for job in jobs if job not in set(done)]
    session.answer({said: done, "not_dead": others}, f"{count(len(done), 'dead job')} {said}.")
    for job in others[:10]:
        complain(f"job {short_id(job)} is not dead. See `inturn jobs explain {short_id(job)}`.")
    if len(others) > 10:
        complain(f"{len(others) - 10} more are not dead.")
    if others:
        raise typer.Exit(ExitCode.NO)


# JSON: the fields are a promise, written down in docs/reference/json.md


def job_document(view: JobView) -> dict[str, Any]:
    """Return a job with its state, all on one level."""
    place = msgspec.structs.asdict(view)
    del place["job"]
    return {"id": view.job.id, "state": place.pop("state")} | _job(view.job) | place


def dead_document(letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter, with the field names of a job."""
    return (
        {"id": letter.job.id, "state": JobState.DEAD}
        | _job(letter.job)
        | {
            "attempt": letter.attempts,
            "errors": letter.errors,
            "died_at": letter.died_at,
            "reason": letter.reason,
        }
    )


def _job(job: Job) -> dict[str, Any]:
    return msgspec.structs.asdict(job) | {"payload": _raw(job.payload)}


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


# Text


def _fields(view: JobView, result: str | None) -> list[tuple[str, Cell]]:
    job = view.job
    return [
        ("job", str(job.id)),
        ("state", state_text(view.state)),
        ("reason", plain(view.reason or "")),
        ("queue", name_text(job.queue)),
        ("kind", name_text(job.kind)),
        ("key", name_text(job.key)),
        ("submitted", time_text(job.enqueued_at)),
        ("died", time_text(view.died_at)),
        ("due", time_text(view.run_at)),
        ("place", _place(view)),
        ("waits for", _awaited(view)),
        ("worker", name_text(view.worker)),
        ("lease until", time_text(view.leased_until)),
        ("progress", _progress(view)),
        ("attempts", f"{view.attempt} of {job.attempts_max}" if view.attempt else ""),
        ("suspect", "yes: its worker crashed, so it runs alone" if view.suspect else ""),
        ("priority", str(job.priority) if job.priority else ""),
        ("round", str(job.round) if job.round else ""),
        ("timeout", seconds_text(job.timeout_seconds)),
        ("payload", plain(job.payload)),
        ("result", plain(result or "")),
        ("errors", "\n".join([*_not_kept(view.errors), *map(_error, view.errors)])),
    ]


def _awaited(view: JobView) -> str:
    """Name what a job waits for, as far as it is known, and how many there are beyond that."""
    more = view.waits_for_count - len(view.waits_for)
    said = [*map(str, view.waits_for), *([f"and {more:,} more"] if more else [])]
    return "\n".join([*(["the first that fails of"] if view.is_reaction else []), *said])


def _place(view: JobView) -> str:
    if view.position is None:
        return ""
    place = f"position {view.position} of lane {view.lane}"
    return f"{place}, {_turn(view)}" if view.ahead else place


def _turn(view: JobView) -> str:
    """Say how many jobs come first: with a key it waits for them to end, without only to start."""
    if not view.ahead:
        return "next"
    return f"behind {view.ahead}" if view.job.key is not None else f"starts after {view.ahead}"


def _progress(view: JobView) -> str:
    made = view.progress
    if made is None:
        return ""
    return plain(f"{made.fraction:.0%} {made.note}".rstrip() + f", at {time_text(made.at)}")


def _not_kept(errors: Sequence[AttemptError]) -> list[str]:
    """Say how many errors came before those that were kept, if any did."""
    earlier = errors[0].number - 1 if errors else 0
    return [f"{earlier:,} earlier ones were not kept"] if earlier else []


def _error(error: AttemptError) -> str:
    where = f"attempt {error.attempt}, {time_text(error.at)}, on {error.worker}"
    trace = "" if error.traceback is None else f"\n{error.traceback}"
    return plain(f"{where}:\n{error.error}{trace}")


def _cells(view: JobView, queue: QueueStatus | None, now: datetime) -> tuple[Cell, ...]:
    job = view.job
    return (
        short_id(job.id),
        state_text(view.state),
        name_text(job.queue),
        name_text(job.kind),
        name_text(job.key),
        age(job.enqueued_at, now),
        f"{view.attempt}/{job.attempts_max}" if view.attempt else "",
        _note(view, queue, now),
    )


def _dead_cells(letter: DeadLetter, now: datetime) -> tuple[Cell, ...]:
    job = letter.job
    return (
        short_id(job.id),
        name_text(job.queue),
        name_text(job.kind),
        name_text(job.key),
        age(letter.died_at, now),
        str(letter.attempts),
        "; ".join([_why(letter.reason, letter.errors), *_not_kept(letter.errors)]),
    )


def _said(**filters: str | None) -> list[str]:
    """Return the columns that a filter says already."""
    return [name for name, value in filters.items() if value is not None]


def _note(view: JobView, queue: QueueStatus | None, now: datetime) -> str:
    """Say what matters most about a job in its state."""
    match view.state:
        case JobState.RUNNING:
            done = "" if view.progress is None else f"{view.progress.fraction:.0%} "
            return name_text(f"{done}on {view.worker}")
        case JobState.SCHEDULED | JobState.RETRYING:
            return _due(view, now)
        case JobState.BLOCKED:
            others = ", ".join(map(short_id, view.waits_for))
            return f"if {others} fails" if view.is_reaction else f"after {others}"
        case JobState.WAITING:
            if queue is not None and queue.paused_by is not None:
                return f"queue paused by {name_text(queue.paused_by)}"
            if view.run_at is not None and view.run_at > now:  # its handler asked for that
                return _due(view, now)
            if queue is not None and view.job.round > queue.gate:
                return f"until round {view.job.round} opens"
            return "ready" if view.ahead is None else _turn(view)
        case _:
            return _why(view.reason, view.errors)


def _due(view: JobView, now: datetime) -> str:
    """Say when a job is due, and why not before: its last error."""
    when = "now"
    if view.run_at is not None and view.run_at > now:
        when = f"in {age(now, view.run_at)}"
    return one_line(f"{when}: {view.errors[-1].error}" if view.errors else when)


def _why(reason: str | None, errors: Sequence[AttemptError]) -> str:
    """Say why a job is dead: its last error alone, without how often it failed, if that is why."""
    last = errors[-1].error if errors else ""
    return one_line(last if last and (reason or "").endswith(last) else reason)

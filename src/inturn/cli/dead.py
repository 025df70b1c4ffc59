"""``inturn dead``: look at dead letters, put them back, or drop them for good."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from inturn.cli.call import Call, command
from inturn.cli.documents import dead_document, job_document
from inturn.cli.exits import ExitCode, complain
from inturn.cli.help import Group
from inturn.cli.ids import JobArgument, JobArguments, JobName, find_jobs, on_job
from inturn.cli.jobs import ID, job_fields
from inturn.cli.options import (
    LIMIT_DEFAULT,
    ByOption,
    CursorOption,
    KeyOption,
    KindOption,
    LimitOption,
    QueueOption,
    flag,
)
from inturn.cli.paging import insist_on_queue, pages
from inturn.cli.plain import age, count, name_text, one_line
from inturn.cli.sheet import Column
from inturn.model import bounds
from inturn.model.errors import BadInput
from inturn.model.job import DeadLetter, JobState
from inturn.store.protocol import Store

app = typer.Typer(help="Look at dead letters, retry or drop them.", no_args_is_help=True, cls=Group)

_COLUMNS = (
    Column("job"),
    Column("queue", shrinks=True),
    Column("kind", shrinks=True, wide=True),
    Column("key", shrinks=True),
    Column("died", right=True),
    Column("tries", right=True, wide=True),
    Column("reason", shrinks=True),
)

AllOption = Annotated[bool, flag("--all", help="All of them, or all of --queue, --kind and --key.")]
YesOption = Annotated[bool, flag("--yes", "-y", help="Do not ask first.")]
Verb = Callable[[Store, Sequence[UUID]], Awaitable[list[UUID]]]


@command(app, "list", "inturn dead list", "inturn dead list --queue orders --kind order")
def _list(
    call: Call,
    queue: QueueOption = None,
    kind: KindOption = None,
    key: KeyOption = None,
    limit: LimitOption = LIMIT_DEFAULT,
    cursor: CursorOption = None,
) -> None:
    """List dead letters, the oldest death first."""

    async def listed(store: Store) -> None:
        if queue is not None:
            await insist_on_queue(store, queue)
        now = await store.now()
        found = pages(
            lambda cursor, rows_max: store.dead_letters(
                queue=queue, kind=kind, key=key, cursor=cursor, rows_max=rows_max
            ),
            cursor=cursor,
            limit=limit,
        )
        await call.out.pages(
            "dead",
            found,
            document=dead_document,
            columns=_COLUMNS,
            cells=lambda letter: _cells(letter, now),
            empty="No dead letters.",
        )

    call.run(listed)


@command(app, "show", f"inturn dead show {ID}")
def _show(call: Call, job: JobArgument) -> None:
    """Show a dead letter with its reason and every error."""
    id, view = on_job(call, job, lambda store, id: store.job(id))
    if view.state is not JobState.DEAD:
        complain(
            f"job {id} is not a dead letter: it is {view.state}.",
            f"Look with `inturn jobs show {id}`.",
        )
        raise typer.Exit(ExitCode.NO)
    call.out.fields(job_document(view), job_fields(view))


@command(
    app,
    "retry",
    f"inturn dead retry {ID}",
    "inturn dead retry --all --queue orders --yes",
)
def _retry(
    call: Call,
    jobs: JobArguments = None,
    everything: AllOption = False,
    queue: QueueOption = None,
    kind: KindOption = None,
    key: KeyOption = None,
    yes: YesOption = False,
) -> None:
    """Put dead letters back, with fresh attempts.

    A lane that is halted on one runs it again in its place; others join the tail of their lane.
    """
    filters = {"queue": queue, "kind": kind, "key": key}
    chosen = _chosen(call, jobs, everything, filters, question=None if yes else "Put back")
    _decide(call, chosen, lambda store, ids: store.dead_retry(ids), "retried", "put back")


@command(
    app,
    "drop",
    f"inturn dead drop {ID}",
    "inturn dead drop --all --queue orders --kind order --yes",
)
def _drop(
    call: Call,
    by: ByOption,
    jobs: JobArguments = None,
    everything: AllOption = False,
    queue: QueueOption = None,
    kind: KindOption = None,
    key: KeyOption = None,
    yes: YesOption = False,
) -> None:
    """Cancel dead letters for good. Jobs that wait for them are buried with the reason."""
    filters = {"queue": queue, "kind": kind, "key": key}
    chosen = _chosen(call, jobs, everything, filters, question=None if yes else "Drop for good")
    _decide(call, chosen, lambda store, ids: store.dead_drop(ids, by=by), "dropped", "dropped")


def _chosen(
    call: Call,
    jobs: Sequence[JobName] | None,
    everything: bool,
    filters: dict[str, str | None],
    *,
    question: str | None,
) -> list[UUID]:
    """Return the ids that were given; or with --all those of every dead letter, if agreed to."""
    if bool(jobs) == everything:
        raise BadInput("name the ids of jobs, or pass --all, and not both.")
    if jobs:
        if any(filters.values()):
            raise BadInput("--queue, --kind and --key go with --all, not with ids.")
        return call.run(lambda store: find_jobs(store, jobs))
    if question is not None and not sys.stdin.isatty():
        raise BadInput("--all asks before it acts, and nobody is there to ask. Pass --yes.")
    found = call.run(lambda store: _all_ids(store, filters))
    if found and question is not None:
        asked = f"{question} {count(len(found), 'dead letter')}?"
        if not typer.confirm(asked, err=True):
            complain("nothing was done.")
            raise typer.Exit(ExitCode.NO)
    return found


async def _all_ids(store: Store, filters: dict[str, str | None]) -> list[UUID]:
    if filters["queue"] is not None:
        await insist_on_queue(store, filters["queue"])
    found: list[UUID] = []
    cursor: str | None = None
    while True:
        page = await store.dead_letters(**filters, cursor=cursor, rows_max=bounds.PAGE_ROWS_MAX)
        found += [letter.job.id for letter in page.rows]
        cursor = page.cursor
        if cursor is None:
            return found


def _decide(call: Call, jobs: Sequence[UUID], verb: Verb, name: str, said: str) -> None:
    """Let the verb have the jobs, some at a time, and say which of them were dead until now."""

    async def decided(store: Store) -> list[UUID]:
        decided: list[UUID] = []
        for start in range(0, len(jobs), bounds.PAGE_ROWS_MAX):
            decided += await verb(store, jobs[start : start + bounds.PAGE_ROWS_MAX])
        return decided

    decided_jobs = call.run(decided)
    others = sorted(set(jobs) - set(decided_jobs))
    call.out.answer(
        {name: decided_jobs, "not_dead": others},
        f"{count(len(decided_jobs), 'dead letter')} {said}.",
    )
    for job in others[:10]:
        complain(f"{job} is not a dead letter. Look with `inturn jobs explain {job}`.")
    if len(others) > 10:
        complain(f"nor are {len(others) - 10} more.")
    if others:
        raise typer.Exit(ExitCode.NO)


def _cells(letter: DeadLetter, now: datetime) -> tuple[Any, ...]:
    job = letter.job
    return (
        str(job.id),
        name_text(job.queue),
        name_text(job.kind),
        name_text(job.key),
        age(letter.died_at, now),
        str(letter.attempts),
        one_line(letter.reason),
    )

"""What a person asks of sources, and does with them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from uuid import UUID

import msgspec

from inturn.model.errors import BadInput, NotFound, UnknownJob
from inturn.model.job import JobState, JobView, Ticket
from inturn.poll import SCHEMA
from inturn.poll.schedules import ScheduleView, declared_sources, schedules
from inturn.poll.source_rows import (
    COUNT_SHADOWS,
    FORGET_SHADOWS,
    FORGET_VERSIONS,
    LOCK_SOURCE,
    SOURCE,
    SOURCE_ASKED,
    SOURCES,
    SourceRow,
    WalkState,
    write_source,
)
from inturn.store.store import Store

_TO_COME = (JobState.WAITING, JobState.SCHEDULED, JobState.RETRYING)


class SourceView(msgspec.Struct, frozen=True, kw_only=True):
    """A source as a person sees it."""

    name: str
    cursor: str | None
    items: int
    """How many items it has, as far as was seen."""
    pages: int
    changes: int
    changed_at: datetime | None
    succeeded_at: datetime | None
    """When a run last came to the end, within a minute."""
    failing_since: datetime | None
    """When the run was submitted that is tried again, or that has died."""
    error: str | None
    """What that run failed with last."""
    next_try_at: datetime | None
    waiting: int
    """How many jobs wait in the queue of its changes."""
    oldest_at: datetime | None
    """Since when the oldest of them waits."""
    dead: int
    schedule: ScheduleView | None
    declared: bool
    """Whether a running worker declares it. Without one it is not read."""
    walk: str
    """How far the last reconcile is: none, walking, sweeping, held or done."""
    walk_ended_at: datetime | None
    """When the last that is done was."""
    walk_missing: int
    walk_swept: int


async def sources(store: Store) -> list[SourceView]:
    """Return all sources, by name."""
    await store.ensure(SCHEMA)
    return await _views(store, await store.read(SOURCES))


async def source_view(store: Store, name: str) -> SourceView:
    """Return one source."""
    [found] = await _views(store, [await _row(store, name)])
    return found


async def _views(store: Store, rows: Sequence[SourceRow]) -> list[SourceView]:
    by_schedule = {one.name: one for one in await schedules(store)}
    queues = {one.name: one for one in await store.queues()}
    declared = await declared_sources(store)
    found = []
    for row in rows:
        [counts] = await store.read(COUNT_SHADOWS, source=row.name, walk=row.walk)
        failed = await _failing_run(store, row)
        changes = queues.get(row.queue)
        found.append(
            SourceView(
                name=row.name,
                cursor=row.cursor,
                items=counts.items,
                pages=row.pages,
                changes=row.changes,
                changed_at=row.changed_at,
                succeeded_at=row.succeeded_at,
                failing_since=None if failed is None else failed.job.enqueued_at,
                error=None if failed is None else failed.errors[-1].error,
                next_try_at=None if failed is None else failed.run_at,
                waiting=0 if changes is None else changes.waiting + changes.retrying,
                oldest_at=None if changes is None else changes.oldest_at,
                dead=0 if changes is None else changes.dead,
                schedule=by_schedule.get(f"poll:{row.name}"),
                declared=row.name in declared,
                walk=row.walk_state,
                walk_ended_at=row.walk_ended_at,
                walk_missing=row.walk_missing,
                walk_swept=row.walk_swept,
            )
        )
    return found


async def run_source(store: Store, name: str, *, at_once: bool = False) -> Ticket:
    """Read a source's pages now, such as when a webhook hints at news.

    Where a run waits already, or is tried again, its ticket is returned. ``at_once``: one that is
    tried again later is cancelled, and another takes its place.
    """
    row = await _row(store, name)
    for last in await _last_runs(store, row):
        if last.state in _TO_COME and not _is_walk(row, last):
            if not (at_once and last.errors):
                return Ticket(last.job.id, last.lane, last.position)
            await store.cancel(last.job.id, by="inturn poll run")
    return await submit_run(store, row)


async def reconcile_source(store: Store, name: str, *, force: bool = False) -> Ticket:
    """Walk through a whole source, and delete what it does not have any more.

    ``force``: of a walk that is held because it would delete much, delete that now.
    """
    row = await _row(store, name)
    if force and row.walk_state not in (WalkState.HELD, WalkState.SWEEPING):
        raise BadInput(
            f"no walk of source {name!r} is held, so there is nothing to force. Without force, "
            f"reconcile begins a walk."
        )
    return await submit_run(store, row, reconcile=True, forced=row.walk if force else 0)


async def submit_run(
    store: Store, row: SourceRow, *, reconcile: bool = False, forced: int = 0
) -> Ticket:
    """Submit a run, and note it as the source's last."""
    job = row.new_job(reconcile=reconcile, forced=forced)
    async with store.transaction() as t:
        await t.run(SOURCE_ASKED, name=row.name, job=str(job.id))
        [ticket] = await t.enqueue([job])
    return ticket


async def reset_source(store: Store, name: str, *, forget: bool = False) -> None:
    """Read a source from the beginning again. What is as it was is no change.

    What is not is one, whatever its version: the outside system may have been set back.
    ``forget``: forget what was seen, too, so that every item is told as created.
    """
    await _row(store, name)
    async with store.transaction() as t:
        [row] = await t.run(LOCK_SOURCE, name=name)
        await write_source(t, row, cursor=None, page_digest=None, walk_state=WalkState.NONE)
        await t.run(FORGET_SHADOWS if forget else FORGET_VERSIONS, source=name)


async def _row(store: Store, name: str) -> SourceRow:
    await store.ensure(SCHEMA)
    for row in await store.read(SOURCE, name=name):
        return row
    raise _unknown(name)


async def _failing_run(store: Store, row: SourceRow) -> JobView | None:
    """Return the run that is tried again; else one that has died, until another has succeeded."""
    dead = None
    queue = row.new_job().queue
    for run in (await store.jobs(finished=False, queue=queue)).rows:
        if run.errors and run.died_at is None:
            return run
        ended_at = row.walk_ended_at if _is_walk(row, run) else row.succeeded_at
        if run.errors and run.died_at and not (ended_at and run.died_at < ended_at):
            dead = dead or run
    return dead


async def _last_runs(store: Store, row: SourceRow) -> list[JobView]:
    """Return the last run that was asked for, and the last of the schedule."""
    jobs = [one.last_job for one in await schedules(store) if one.name == f"poll:{row.name}"]
    found = []
    for job in (row.last_job, *jobs):
        with suppress(UnknownJob):  # it was pruned
            found += [await store.job(UUID(job))] if job is not None else []
    return found


def _is_walk(row: SourceRow, run: JobView) -> bool:
    return run.job.payload != row.new_job().payload


def _unknown(name: str) -> NotFound:
    return NotFound(
        f"there is no source {name!r}. List them: `inturn poll list`. One is there as soon as a "
        f"worker that declares it has started."
    )

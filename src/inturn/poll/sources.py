"""What a person asks of sources, and does with them."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from uuid import UUID

import msgspec

from inturn.model.errors import NotFound, UnknownJob
from inturn.model.job import JobState, JobView, Ticket
from inturn.poll import SCHEMA
from inturn.poll.schedules import ScheduleView, schedules
from inturn.poll.source_rows import (
    COUNT_SHADOWS,
    FORGET_SHADOWS,
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
    """When a run last came to the end."""
    failing_since: datetime | None
    """When the run was submitted that is tried again, or that has died."""
    error: str | None
    """What that run failed with last."""
    next_try_at: datetime | None
    waiting: int
    """How many changes wait for their job."""
    oldest_at: datetime | None
    """Since when the oldest of them waits."""
    dead: int
    schedule: ScheduleView | None
    walk: str
    """How far the last reconcile is: none, walking, sweeping, held or done."""
    walk_ended_at: datetime | None
    """When the last that is done was."""
    walk_missing: int
    walk_swept: int


async def sources(store: Store) -> list[SourceView]:
    """Return all sources, by name."""
    await store.ensure(SCHEMA)
    by_schedule = {one.name: one for one in await schedules(store)}
    queues = {one.name: one for one in await store.queues()}
    found = []
    for row in await store.read(SOURCES):
        [counts] = await store.read(COUNT_SHADOWS, source=row.name, walk=row.walk)
        schedule = by_schedule.get(f"poll:{row.name}")
        failed = await _failing_run(store, row)
        changes = queues.get(row.queue)
        ends = [row.succeeded_at, schedule.done_at if schedule is not None else None]
        last = await _last_runs(store, row, schedule)
        ends += [one.job.enqueued_at for one in last if one.state is JobState.DONE]
        found.append(
            SourceView(
                name=row.name,
                cursor=row.cursor,
                items=counts.items,
                pages=row.pages,
                changes=row.changes,
                changed_at=row.changed_at,
                succeeded_at=max((one for one in ends if one is not None), default=None),
                failing_since=None if failed is None else failed.job.enqueued_at,
                error=None if failed is None else failed.errors[-1].error,
                next_try_at=None if failed is None else failed.run_at,
                waiting=0 if changes is None else changes.waiting + changes.retrying,
                oldest_at=None if changes is None else changes.oldest_at,
                dead=0 if changes is None else changes.dead,
                schedule=schedule,
                walk=row.walk_state,
                walk_ended_at=row.walk_ended_at,
                walk_missing=row.walk_missing,
                walk_swept=row.walk_swept,
            )
        )
    return found


async def source_view(store: Store, name: str) -> SourceView:
    """Return one source."""
    for one in await sources(store):
        if one.name == name:
            return one
    raise _unknown(name)


async def run_source(store: Store, name: str) -> Ticket:
    """Read a source's pages now, such as when a webhook hints at news.

    Where a run waits already, or is tried again, its ticket is returned.
    """
    row = await _row(store, name)
    by_schedule = {one.name: one for one in await schedules(store)}
    for last in await _last_runs(store, row, by_schedule.get(f"poll:{name}")):
        if last.state in _TO_COME and last.job.payload == row.new_job().payload:
            return Ticket(last.job.id, last.lane, last.position)
    return await submit_run(store, row)


async def reconcile_source(store: Store, name: str, *, force: bool = False) -> Ticket:
    """Walk through a whole source, and delete what it does not have any more.

    ``force``: of a walk that is held because it would delete much, delete that now.
    """
    return await submit_run(store, await _row(store, name), reconcile=True, force=force)


async def submit_run(
    store: Store, row: SourceRow, *, reconcile: bool = False, force: bool = False
) -> Ticket:
    """Submit a run, and note it as the source's last."""
    job = row.new_job(reconcile=reconcile, force=force)
    async with store.transaction() as t:
        await t.run(SOURCE_ASKED, name=row.name, job=str(job.id))
        [ticket] = await t.enqueue([job])
    return ticket


async def reset_source(store: Store, name: str, *, forget: bool = False) -> None:
    """Read a source from the beginning again. What is as it was is no change.

    ``forget``: forget what was seen, too, so that every item is told as created.
    """
    await _row(store, name)
    async with store.transaction() as t:
        [row] = await t.run(LOCK_SOURCE, name=name)
        await write_source(t, row, cursor=None, walk_state=WalkState.NONE)
        if forget:
            await t.run(FORGET_SHADOWS, source=name)


async def _row(store: Store, name: str) -> SourceRow:
    await store.ensure(SCHEMA)
    for row in await store.read(SOURCE, name=name):
        return row
    raise _unknown(name)


async def _failing_run(store: Store, row: SourceRow) -> JobView | None:
    """Return the run that is tried again; else one that has died, until another walk is done."""
    queue = row.new_job().queue
    for state in (JobState.RETRYING, JobState.RUNNING, JobState.DEAD):
        for run in (await store.jobs(state=state, queue=queue, rows_max=1)).rows:
            is_past = run.died_at and row.walk_ended_at and run.died_at < row.walk_ended_at
            if run.errors and not is_past:
                return run
    return None


async def _last_runs(store: Store, row: SourceRow, schedule: ScheduleView | None) -> list[JobView]:
    """Return the last run that was asked for, and the last of the schedule."""
    found = []
    for job in (row.last_job, None if schedule is None else schedule.last_job):
        with suppress(UnknownJob):  # it was pruned
            found += [await store.job(UUID(job))] if job is not None else []
    return found


def _unknown(name: str) -> NotFound:
    return NotFound(
        f"there is no source {name!r}. List them: `inturn poll list`. One is there as soon as a "
        f"worker that declares it has started."
    )

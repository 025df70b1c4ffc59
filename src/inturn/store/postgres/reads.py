"""Reading jobs, dead letters and results."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from inturn.model.errors import ResultLost, UnknownJob
from inturn.model.job import AttemptError, DeadLetter, Job, JobState, JobView, Progress
from inturn.model.lane import LaneView
from inturn.policy.explain import WORKER_SEEN_SECONDS, Awaited, Facts
from inturn.policy.explain import explain as sentence
from inturn.store.paging import Asked, Page, decode_cursor, encode_cursor
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.sql import query
from inturn.store.postgres.status import lanes, reached

WALK_ROWS = 5_000
"""How many rows of the log are looked at in the order of ids before lanes are searched instead."""

AWAITED_SAID = 5
"""How many of the jobs that a blocked one waits for are named."""

_LAST = UUID(int=2**128 - 1)
_errors_decoder = msgspec.json.Decoder(tuple[AttemptError, ...])


async def job(connection: Connection, job: UUID, now: datetime) -> JobView:
    """Return a job with its state and place in line. Raises ``UnknownJob``."""
    for view in await _views(connection, [job], now):
        return view
    raise UnknownJob(job)


async def jobs(
    connection: Connection, states: Sequence[JobState | None], asked: Asked, now: datetime
) -> Page[JobView]:
    """List jobs by id, newest first, all as they were at one moment. A state None: of any."""
    before = _LAST if asked.cursor is None else decode_cursor(asked.cursor, UUID)[0]
    rows_max = asked.rows_max
    ids_asked = (before, asked.queue, asked.kind, asked.key, rows_max + 1)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        ids = [await _ids(connection, ids_asked, one, now) for one in states]
        found = sorted(set().union(*ids), reverse=True)
        views = await _views(connection, found[:rows_max], now)
    ends = len(found) <= rows_max
    return Page(
        rows=tuple(reversed(views)), cursor=None if ends else encode_cursor(found[rows_max - 1])
    )


async def jobs_ending(connection: Connection, ending: str) -> list[UUID]:
    """Return the jobs, ten at most, whose id ends with these hexadecimal digits."""
    return [row[0] for row in await connection.fetch(query("jobs_ending"), ending)]


async def ended(
    connection: Connection, jobs: Sequence[UUID], now: datetime | None
) -> dict[UUID, JobState | None]:
    """Return how those of the jobs ended that have; None where there is no such job."""
    rows = await connection.fetch(query("ended"), jobs, now)
    return {job: None if state is None else JobState(state) for job, state in rows}


async def result(connection: Connection, job: UUID, now: datetime) -> str | None:
    """Return the JSON text a job's handler returned, while it is kept. Raises ``ResultLost``."""
    row = await connection.fetchrow(query("result"), job, now)
    if row is None:
        return None
    if row["lost"] is not None:
        raise ResultLost(job, row["lost"])
    value: str = row["value"]
    return value


async def explain(connection: Connection, job: UUID, now: datetime) -> str:
    """Say in one sentence why a job is where it is. Raises ``UnknownJob``."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        for view in await _views(connection, [job], now):
            return sentence(await _facts(connection, view, now))
    raise UnknownJob(job)


async def dead_letters(connection: Connection, asked: Asked) -> Page[DeadLetter]:
    """List dead letters, latest death first."""
    queue, kind, key, cursor, rows_max = asked
    after = (None, None) if cursor is None else decode_cursor(cursor, datetime, UUID)
    rows = await connection.fetch(query("dead_letters"), *after, queue, kind, key, rows_max + 1)
    letters = tuple(
        DeadLetter(
            job=_job(row),
            attempts=row["attempts"],
            errors=_errors(row["errors"]),
            reason=row["reason"],
            died_at=row["died_at"],
        )
        for row in rows[:rows_max]
    )
    if len(rows) <= rows_max:
        return Page(rows=letters)
    return Page(rows=letters, cursor=encode_cursor(letters[-1].died_at, letters[-1].job.id))


async def _facts(connection: Connection, view: JobView, now: datetime) -> Facts:
    """Gather what there is to know about a job's place."""
    lane = await _lane(connection, view)
    keyed = lane is not None and lane.key is not None
    row = await connection.fetchrow(
        query("explain"),
        view.job.queue,
        lane.id if lane is not None and keyed else None,
        lane.kind if lane is not None and keyed else view.job.kind,
        now - timedelta(seconds=WORKER_SEEN_SECONDS),
        now,
    )
    awaited = await connection.fetch(query("awaited"), view.job.id, now, AWAITED_SAID)
    return Facts(
        view=view,
        now=now,
        gate=row["gate"],
        queue_paused_by=row["paused_by"],
        lane=lane,
        key_lane=lane if keyed else await _key_lane(connection, view),
        head=row["head"],
        head_worker=row["head_worker"],
        head_until=row["head_until"],
        awaited=tuple(Awaited(job=one[0], state=JobState(one[1])) for one in awaited),
        taken=row["taken"],
        limit_reached=reached(row),
        is_local=row["local"],
    )


async def _lane(connection: Connection, view: JobView) -> LaneView | None:
    """Return the lane that a job stands in, or that is halted on it."""
    queue, key = view.job.queue, view.job.key
    if view.state is JobState.DEAD and key is not None:
        halted = await lanes(connection, queue, key=key)
        return next((lane for lane in halted.rows if lane.halted_job == view.job.id), None)
    if view.lane is None or (view.ahead is None and view.state is not JobState.RUNNING):
        return None
    page = await lanes(connection, queue, key=key, cursor=encode_cursor(view.lane - 1), rows_max=1)
    return page.rows[0]


async def _key_lane(connection: Connection, view: JobView) -> LaneView | None:
    """Return the lane of a job's key, also when the job does not stand in it yet."""
    if view.job.key is None:
        return None
    page = await lanes(connection, view.job.queue, key=view.job.key)
    return next(iter(page.rows), None)


_Search = tuple[UUID, str | None, str | None, str | None, int]
"""What a list is asked for: ids before this one, queue, kind, key, and how many."""


async def _ids(
    connection: Connection, asked: _Search, state: JobState | None, now: datetime
) -> set[UUID]:
    """Return the newest ids of each place in which jobs of this state are."""
    found: set[UUID] = set()
    if state is not JobState.DONE:
        found |= await _from(connection, "jobs_aside", *asked, state, now)
    if state is JobState.RUNNING:
        found |= await _from(connection, "jobs_leased", *asked)
    elif state is JobState.RETRYING:
        found |= await _from(connection, "jobs_retrying", *asked)
    elif state in (None, JobState.WAITING, JobState.DONE):
        found |= await _ids_in_log(connection, asked, state)
    return found


async def _ids_in_log(connection: Connection, asked: _Search, state: JobState | None) -> set[UUID]:
    """Return the newest ids in the log: by a short walk, or from the lanes if it finds too few."""
    found = await _from(connection, "jobs_walked", *asked, state, WALK_ROWS)
    if len(found) == asked[-1] or await connection.fetchval(
        query("jobs_walk_ends"), asked[0], WALK_ROWS
    ):
        return found
    if state is not JobState.DONE:
        found |= await _from(connection, "jobs_waiting", *asked)
    if state is not JobState.WAITING:
        found |= await _from(connection, "jobs_done", *asked)
    if state is None:
        found |= await _from(connection, "jobs_leased", *asked)
        found |= await _from(connection, "jobs_retrying", *asked)
    return found


async def _from(connection: Connection, name: str, *arguments: object) -> set[UUID]:
    return {row[0] for row in await connection.fetch(query(name), *arguments)}


async def _views(connection: Connection, ids: Sequence[UUID], now: datetime) -> list[JobView]:
    if not ids:
        return []
    return [_view(row) for row in await connection.fetch(query("job_views"), ids, now)]


def _view(row: Any) -> JobView:
    return JobView(
        job=_job(row),
        state=JobState(row["state"]),
        lane=row["lane"],
        position=row["position"],
        ahead=row["ahead"],
        run_at=row["run_at"],
        attempt=row["attempt"],
        errors=_errors(row["errors"]),
        worker=row["worker"],
        leased_until=row["leased_until"],
        waits_for=tuple(row["waits_for"] or ()),
        waits_for_count=row["waits_for_count"],
        is_reaction=row["is_reaction"],
        suspect=row["suspect"],
        progress=None
        if row["fraction"] is None
        else Progress(fraction=row["fraction"], note=row["note"], at=row["said_at"]),
        died_at=row["died_at"],
        cancelled_by=row["cancelled_by"],
        reason=row["reason"],
    )


def _job(row: Any) -> Job:
    return Job(*(row[name] for name in Job.__struct_fields__))


def _errors(kept: str | None) -> tuple[AttemptError, ...]:
    return () if kept is None else _errors_decoder.decode(kept)

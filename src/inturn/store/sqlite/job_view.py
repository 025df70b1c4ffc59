"""One job with its state, its place in line and its history."""

from __future__ import annotations

import sqlite3
from typing import Any
from uuid import UUID

from inturn.model.errors import ResultLost, UnknownJob
from inturn.model.job import JobState, JobView
from inturn.store.sqlite import lane_row
from inturn.store.sqlite.lane_row import LaneRow
from inturn.store.sqlite.progress import said_of
from inturn.store.sqlite.rows import WHOLE_JOB, errors_of, job_of
from inturn.store.sqlite.settled import decode_ranges, holds
from inturn.store.sqlite.times import Micros, time_of, time_or_none


def job(connection: sqlite3.Connection, now: Micros, id: UUID) -> JobView:
    """Return a job with its state and place in line. Raises ``UnknownJob``."""
    for look in (_dead, _cancelled, _blocked, _parked, _logged):
        view = look(connection, now, id.bytes)
        if view is not None:
            return view
    raise UnknownJob(id)


def result(connection: sqlite3.Connection, now: Micros, id: UUID) -> str | None:
    """Return the JSON text a job's handler returned, while it is kept. Raises ``ResultLost``."""
    statement = "select value, lost from result where job = ? and until > ?"
    row: tuple[str, str | None] | None
    row = connection.execute(statement, (id.bytes, now)).fetchone()
    if row is None:
        return None
    value, lost = row
    if lost is not None:
        raise ResultLost(id, lost)
    return value


def _dead(connection: sqlite3.Connection, now: Micros, id: bytes) -> JobView | None:
    row = _find(connection, "dead", "attempts, errors, reason, died_at", id)
    if row is None:
        return None
    attempts, errors, reason, died_at = row[10:]
    lane, position = _place(connection, id)
    return JobView(
        job=job_of(row),
        state=JobState.DEAD,
        lane=lane,
        position=position,
        attempt=attempts,
        errors=errors_of(errors),
        died_at=time_of(died_at),
        reason=reason,
    )


def _cancelled(connection: sqlite3.Connection, now: Micros, id: bytes) -> JobView | None:
    row = _find(connection, "cancelled", "lane, position, cancelled_by, reason", id)
    if row is None:
        return None
    lane, position, by, reason = row[10:]
    return JobView(
        job=job_of(row),
        state=JobState.CANCELLED,
        lane=lane,
        position=position,
        cancelled_by=by,
        reason=reason,
    )


def _blocked(connection: sqlite3.Connection, now: Micros, id: bytes) -> JobView | None:
    row = _find(connection, "blocked", "null", id)
    if row is None:
        return None
    others = connection.execute("select on_job from waits where job = ? order by on_job", (id,))
    return JobView(
        job=job_of(row),
        state=JobState.BLOCKED,
        waits_for=tuple(UUID(bytes=other) for (other,) in others),
    )


def _parked(connection: sqlite3.Connection, now: Micros, id: bytes) -> JobView | None:
    row = _find(connection, "parked", "run_at, attempt, errors, suspect, token", id)
    if row is None:
        return None
    run_at, attempt, errors, suspect, token = row[10:]
    worker, until = _lease(connection, token)
    if token is not None:
        state = JobState.RUNNING
    elif attempt > 0:
        state = JobState.RETRYING
    else:
        state = JobState.SCHEDULED if run_at > now else JobState.WAITING
    return JobView(
        job=job_of(row),
        state=state,
        run_at=time_of(run_at) if state in (JobState.SCHEDULED, JobState.RETRYING) else None,
        attempt=attempt,
        errors=errors_of(errors),
        worker=worker,
        leased_until=time_or_none(until),
        suspect=bool(suspect),
        progress=None if token is None else said_of(connection, id, token),
    )


def _logged(connection: sqlite3.Connection, now: Micros, id: bytes) -> JobView | None:
    row = _find(connection, "logged", "lane, position", id)
    if row is None:
        return None
    lane = lane_row.load(connection, row[10])
    assert lane is not None
    look = _in_open_lane if lane.key is None else _in_keyed_lane
    return look(connection, row, lane)


def _in_keyed_lane(connection: sqlite3.Connection, row: tuple[Any, ...], lane: LaneRow) -> JobView:
    position: int = row[11]
    view: dict[str, Any] = {"job": job_of(row), "lane": lane.id, "position": position}
    if position < lane.head:
        return JobView(**view, state=JobState.DONE)
    is_head = position == lane.head
    history: dict[str, Any] = {
        "attempt": lane.head_attempt if is_head else int(position < lane.cursor),
        "errors": errors_of(lane.head_errors) if is_head else (),
        "suspect": position <= lane.suspect_last,
    }
    if position < lane.cursor:
        worker, until = _lease(connection, lane.token)
        state = JobState.RUNNING
        held: dict[str, Any] = {"worker": worker, "leased_until": time_or_none(until)}
        if lane.token is not None:
            held["progress"] = said_of(connection, row[0], lane.token)
        return JobView(**view, **history, **held, state=state)
    state = JobState.RETRYING if is_head and lane.head_attempt > 0 else JobState.WAITING
    ahead = position - lane.head
    ahead -= lane_row.cancelled_between(connection, lane.id, lane.head, position - 1)
    run_at = time_or_none(lane.ready_at) if is_head else None
    return JobView(**view, **history, state=state, ahead=ahead, run_at=run_at)


def _in_open_lane(connection: sqlite3.Connection, row: tuple[Any, ...], lane: LaneRow) -> JobView:
    position: int = row[11]
    view: dict[str, Any] = {"job": job_of(row), "lane": lane.id, "position": position}
    if position >= lane.cursor:
        ahead = position - lane.cursor
        ahead -= lane_row.cancelled_between(connection, lane.id, lane.cursor, position - 1)
        return JobView(**view, state=JobState.WAITING, ahead=ahead)
    run = connection.execute(
        "select token, last, settled from run where lane = ? and first <= ? "
        "order by first desc limit 1",
        (lane.id, position),
    ).fetchone()
    if run is None or position > run[1] or holds(decode_ranges(run[2]), position):
        return JobView(**view, state=JobState.DONE)
    worker, until = _lease(connection, run[0])
    return JobView(
        **view,
        state=JobState.RUNNING,
        attempt=1,
        worker=worker,
        leased_until=time_or_none(until),
        progress=said_of(connection, row[0], run[0]),
    )


def _find(
    connection: sqlite3.Connection, table: str, columns: str, id: bytes
) -> tuple[Any, ...] | None:
    statement = f"select {WHOLE_JOB}, {columns} from {table} where id = ?"
    row: tuple[Any, ...] | None = connection.execute(statement, (id,)).fetchone()
    return row


def _place(connection: sqlite3.Connection, id: bytes) -> tuple[int | None, int | None]:
    row = connection.execute("select lane, position from job where id = ?", (id,)).fetchone()
    return (None, None) if row is None else row


def _lease(connection: sqlite3.Connection, token: int | None) -> tuple[str | None, Micros | None]:
    if token is None:
        return None, None
    row = connection.execute("select worker, until from lease where token = ?", (token,)).fetchone()
    return (None, None) if row is None else row

"""Cancelling: a job for good, or a dead letter, and what waits for it is buried."""

from __future__ import annotations

import sqlite3
from uuid import UUID

from inturn.model.errors import UnknownJob
from inturn.model.job import JobState
from inturn.store.sqlite import lane_row
from inturn.store.sqlite.dependents import forsake
from inturn.store.sqlite.enqueue import state_of
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queues import made_queue
from inturn.store.sqlite.rows import Micros

_TOO_LATE = (JobState.RUNNING, JobState.DONE, JobState.DEAD, JobState.CANCELLED)


def cancel(connection: sqlite3.Connection, now: Micros, job: UUID, *, by: str) -> JobState:
    """Cancel a job that is not running; return the state it has now."""
    state = state_of(connection, now, job)
    if state is None:
        raise UnknownJob(job)
    if state in _TOO_LATE:
        return state
    reason = f"cancelled by {by}"
    if not _take_out(connection, now, job.bytes, by=by, reason=reason):
        _leave_line(connection, now, job.bytes, by=by, reason=reason)
    forsake(connection, now, job.bytes, ended=reason)
    return JobState.CANCELLED


def _take_out(
    connection: sqlite3.Connection, now: Micros, job: bytes, *, by: str, reason: str
) -> bool:
    """Cancel a job that is blocked or parked; say whether it was."""
    connection.execute(query("cancel_set_aside"), (now, by, reason, job))
    removed = sum(
        connection.execute(f"delete from {table} where {column} = ?", (job,)).rowcount
        for table, column in (
            ("blocked", "id"),
            ("parked", "id"),
            ("waits", "job"),
            ("reacting", "job"),
        )
    )
    return removed > 0


def _leave_line(
    connection: sqlite3.Connection, now: Micros, job: bytes, *, by: str, reason: str
) -> None:
    """Cancel a job that waits in its lane. Claims pass over its position."""
    connection.execute(query("cancel_logged"), (now, by, reason, job))
    statement = "select lane, position from job where id = ?"
    lane, position = connection.execute(statement, (job,)).fetchone()
    row = lane_row.load(connection, lane)
    assert row is not None
    if position == row.cursor or row.waiting_since is not None:
        lane_row.refresh(connection, made_queue(connection, row.queue), row)


def drop(connection: sqlite3.Connection, now: Micros, job: bytes, *, by: str) -> None:
    """Move a dead letter to the cancelled jobs."""
    ended = f"dropped by {by}"
    connection.execute(query("drop_dead"), (now, by, ended, job))
    connection.execute("delete from dead where id = ?", (job,))
    forsake(connection, now, job, ended=ended)

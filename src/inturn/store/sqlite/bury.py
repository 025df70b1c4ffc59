"""Burying: a job becomes a dead letter, in the transaction in which it leaves its place."""

from __future__ import annotations

import sqlite3

from inturn.store.sqlite import lane_row
from inturn.store.sqlite.lane_row import LaneRow
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queue_row import QueueRow
from inturn.store.sqlite.times import Micros


def bury_head(
    connection: sqlite3.Connection,
    now: Micros,
    queue: QueueRow,
    lane: LaneRow,
    *,
    position: int,
    attempts: int,
    errors: str,
    reason: str,
) -> None:
    """Bury a keyed lane's job; the lane goes on behind it, or halts on it for a person."""
    job = bury_logged(
        connection, now, lane.id, position, attempts=attempts, errors=errors, reason=reason
    )
    lane.forget_head()
    if queue.on_dead == "halt":
        lane.take_back(position)
        lane.halted_at, lane.halted_job = now, job
    else:
        lane.take_back(position + 1)
    lane_row.refresh(connection, queue, lane)


def bury_logged(
    connection: sqlite3.Connection,
    now: Micros,
    lane: int,
    position: int,
    *,
    attempts: int,
    errors: str,
    reason: str,
) -> bytes:
    """Make a job of the log a dead letter and return its id."""
    connection.execute(query("bury_logged"), (attempts, errors, reason, now, lane, position))
    statement = "select id from job where lane = ? and position = ?"
    job: bytes = connection.execute(statement, (lane, position)).fetchone()[0]
    return job


def bury_parked(
    connection: sqlite3.Connection, now: Micros, job: bytes, *, errors: str, reason: str
) -> None:
    """Make a parked job a dead letter."""
    connection.execute(query("bury_parked"), (errors, reason, now, job))
    connection.execute("delete from parked where id = ?", (job,))

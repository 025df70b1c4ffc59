"""Keyed lanes in an operator's hands: paused, resumed, and led on after a halt."""

from __future__ import annotations

import sqlite3
from uuid import UUID

from inturn.model.errors import NotHalted, UnknownLane
from inturn.store.sqlite import lane_row, queue_row
from inturn.store.sqlite.drop import drop
from inturn.store.sqlite.lane_row import LaneRow
from inturn.store.sqlite.queue_row import QueueRow
from inturn.store.sqlite.times import Micros


def pause_lane(
    connection: sqlite3.Connection, now: Micros, queue: str, *, key: str, by: str
) -> None:
    """Hold a keyed lane. What runs goes on running."""
    row, lane = _known(connection, queue, key)
    lane.paused_at, lane.paused_by = lane.paused_at or now, by
    lane_row.refresh(connection, row, lane)


def resume_lane(connection: sqlite3.Connection, now: Micros, queue: str, *, key: str) -> None:
    """Let a paused keyed lane go on."""
    row, lane = _known(connection, queue, key)
    lane.paused_at = lane.paused_by = None
    lane_row.refresh(connection, row, lane)


def retry_lane(connection: sqlite3.Connection, now: Micros, queue: str, key: str) -> UUID:
    """Run a halted lane's head again, with fresh attempts, in its place; return its id."""
    row, lane, job = _halted(connection, queue, key)
    connection.execute("delete from dead where id = ?", (job,))
    lane.forget_head()
    lane_row.refresh(connection, row, lane)
    return UUID(bytes=job)


def skip_lane(connection: sqlite3.Connection, now: Micros, queue: str, key: str) -> UUID:
    """Leave a halted lane's head among the dead letters and go on with the next."""
    row, lane, job = _halted(connection, queue, key)
    _go_on(connection, row, lane)
    return UUID(bytes=job)


def drop_lane(
    connection: sqlite3.Connection, now: Micros, queue: str, key: str, *, by: str
) -> UUID:
    """Cancel a halted lane's head for good and go on with the next."""
    row, lane, job = _halted(connection, queue, key)
    _go_on(connection, row, lane)
    drop(connection, now, job, by=by)
    return UUID(bytes=job)


def _go_on(connection: sqlite3.Connection, queue: QueueRow, lane: LaneRow) -> None:
    """Take the next job as head."""
    lane.forget_head()
    lane.take_back(lane.head + 1)
    lane_row.refresh(connection, queue, lane)


def _known(connection: sqlite3.Connection, queue: str, key: str) -> tuple[QueueRow, LaneRow]:
    row = queue_row.find(connection, queue)
    lane = lane_row.find(connection, queue, key)
    if row is None or lane is None:
        raise UnknownLane(queue, key)
    return row, lane


def _halted(
    connection: sqlite3.Connection, queue: str, key: str
) -> tuple[QueueRow, LaneRow, bytes]:
    row, lane = _known(connection, queue, key)
    if lane.halted_job is None:
        raise NotHalted(queue, key)
    return row, lane, lane.halted_job

"""Keyed lanes in an operator's hands: paused, resumed, and led on after a halt."""

from __future__ import annotations

import sqlite3
from uuid import UUID

from inturn.model.errors import NotHalted, UnknownLane
from inturn.store.engine import Decision
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


def decide_lane(
    connection: sqlite3.Connection,
    now: Micros,
    queue: str,
    key: str,
    *,
    decision: Decision,
    by: str = "",
) -> UUID:
    """Retry, skip or drop the head of a halted lane; return its id."""
    row, lane, job = _halted(connection, queue, key)
    lane.forget_head()
    if decision == "retry":
        connection.execute("delete from dead where id = ?", (job,))
    else:
        lane.take_back(lane.head + 1)
    lane_row.refresh(connection, row, lane)
    if decision == "drop":
        drop(connection, now, job, by=by)
    return UUID(bytes=job)


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

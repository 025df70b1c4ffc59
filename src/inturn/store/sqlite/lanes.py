"""Keyed lanes in an operator's hands: listed, paused, resumed, and led on after a halt."""

from __future__ import annotations

import sqlite3
from uuid import UUID

from inturn.model.errors import NotHalted, UnknownLane
from inturn.model.lane import LaneState, LaneView
from inturn.store.engine import Decision
from inturn.store.paging import Page, decode_cursor, encode_cursor
from inturn.store.sqlite import lane_row
from inturn.store.sqlite.cancel import drop
from inturn.store.sqlite.lane_row import LaneRow
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queues import QueueRow, find_queue
from inturn.store.sqlite.rows import Micros, time_or_none


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
    row = find_queue(connection, queue)
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


def lanes(
    connection: sqlite3.Connection,
    now: Micros,
    queue: str,
    *,
    key: str | None,
    cursor: str | None,
    rows_max: int,
) -> Page[LaneView]:
    """List a queue's lanes by id, or the one lane of a key."""
    [after] = decode_cursor(cursor, int) if cursor is not None else (0,)
    row = find_queue(connection, queue)
    if row is None:
        return Page(rows=())
    if key is not None:
        lane = lane_row.find(connection, queue, key)
        if lane is None or lane.id <= after:
            return Page(rows=())
        return Page(rows=(view(connection, row.gate, lane),))
    statement = query("lane") + " where lane.queue = ? and lane.id > ? order by lane.id limit ?"
    found = [LaneRow(*one) for one in connection.execute(statement, (queue, after, rows_max + 1))]
    views = tuple(view(connection, row.gate, lane) for lane in found[:rows_max])
    more = encode_cursor(views[-1].id) if len(found) > rows_max else None
    return Page(rows=views, cursor=more)


def view(connection: sqlite3.Connection, gate: int, lane: LaneRow) -> LaneView:
    """Return a lane with its depth and what it is doing."""
    return LaneView(
        id=lane.id,
        queue=lane.queue,
        key=lane.key,
        kind=lane.kind,
        priority=lane.priority,
        round=lane.round,
        state=state(gate, lane),
        head=lane.head,
        cursor=lane.cursor,
        last=lane.last,
        depth=lane_row.depth(connection, lane),
        ready_at=time_or_none(lane.ready_at),
        halted_job=None if lane.halted_job is None else UUID(bytes=lane.halted_job),
        paused_by=lane.paused_by,
    )


def state(gate: int, lane: LaneRow) -> LaneState:
    """Say what a lane is doing: first what a person has to do, then a worker, then time."""
    if lane.halted_at is not None:
        return LaneState.HALTED
    if lane.paused_at is not None:
        return LaneState.PAUSED
    if lane.token is not None:
        return LaneState.LEASED
    if lane.ready_at is not None:
        return LaneState.SLEEPING
    if not lane.active:
        return LaneState.IDLE
    return LaneState.GATED if lane.round > gate else LaneState.READY

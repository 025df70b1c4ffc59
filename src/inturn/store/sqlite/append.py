"""Joining the line: jobs take the next positions of their lanes, in the order they are given."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from inturn.store.sqlite import lane_row
from inturn.store.sqlite.lane_row import LaneRow
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queue_row import QueueRow
from inturn.store.sqlite.rows import WholeJob, rank

Place = tuple[int, int]  # lane and position

_ROWS_TOGETHER = 50
_COLUMNS = 10
_IS_OPEN = (
    " where lane.queue = ? and lane.key is null and lane.kind = ? and lane.priority = ?"
    " and lane.round = ?"
)


def append(
    connection: sqlite3.Connection, jobs: Sequence[WholeJob], queues: Mapping[str, QueueRow]
) -> list[Place]:
    """Put jobs at the tails of their lanes and return where each one stands."""
    lanes: dict[tuple[Any, ...], LaneRow] = {}
    firsts: dict[int, tuple[WholeJob, int]] = {}  # the first job of each lane, and its round there
    places: list[Place] = []
    rows: list[tuple[Any, ...]] = []
    for job in jobs:
        name = _lane_name(job)
        lane = lanes.get(name)
        if lane is None:
            lane = lanes[name] = _lane_of(connection, job)
        lane.last += 1
        # Rounds never fall within a keyed lane: a gate would otherwise hold back an open round.
        lane.last_round = max(lane.last_round, job.round)
        firsts.setdefault(lane.id, (job, lane.last_round))
        places.append((lane.id, lane.last))
        rows.append(_log_row(job, lane))
    insert_jobs(connection, rows)
    for lane in lanes.values():
        connection.execute(
            "update tail set last = ?, round = ? where lane = ?",
            (lane.last, lane.last_round, lane.id),
        )
        _show_waiting(connection, queues[lane.queue], lane, *firsts[lane.id])
    return places


def insert_jobs(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Add rows to the log, many with one statement.

    A thread that runs SQLite gives up Python's lock at every step and, beside a busy thread, waits
    5 ms to get it back: 500 rows one by one took 200 ms instead of 1. So, few steps.
    """
    whole = len(rows) - len(rows) % _ROWS_TOGETHER
    for start in range(0, whole, _ROWS_TOGETHER):
        together = rows[start : start + _ROWS_TOGETHER]
        connection.execute(_insert(_ROWS_TOGETHER), [value for row in together for value in row])
    connection.executemany(_insert(1), rows[whole:])


def _insert(count: int) -> str:
    row = f"({', '.join('?' * _COLUMNS)})"
    return f"insert into job values {', '.join([row] * count)}"


def _log_row(job: WholeJob, lane: LaneRow) -> tuple[Any, ...]:
    return (
        lane.id,
        lane.last,
        job.id,
        job.kind,
        job.payload,
        job.priority,
        lane.last_round,
        job.attempts_max,
        job.timeout_seconds,
        job.enqueued_at,
    )


def _show_waiting(
    connection: sqlite3.Connection, queue: QueueRow, lane: LaneRow, first: WholeJob, round: int
) -> None:
    """Let a lane in which nothing waited be claimed, unless it is leased, halted or paused."""
    if lane.waiting_since is not None:
        return
    lane.waiting_since = first.enqueued_at
    if not lane.active:
        lane.active = 1
        lane.kind, lane.priority, lane.round = first.kind, first.priority, round
        if lane.is_claimable():
            lane.rank_at = rank(first.enqueued_at, first.priority, queue.aging_seconds)
    lane_row.save(connection, lane)


def _lane_name(job: WholeJob) -> tuple[Any, ...]:
    if job.key is not None:
        return job.queue, job.key
    return job.queue, None, job.kind, job.priority, job.round


def _lane_of(connection: sqlite3.Connection, job: WholeJob) -> LaneRow:
    """Return the lane a job belongs to, making it if need be."""
    if job.key is not None:
        lane = lane_row.find(connection, job.queue, job.key)
    else:
        row = connection.execute(
            query("lane") + _IS_OPEN,
            (job.queue, job.kind, job.priority, job.round),
        ).fetchone()
        lane = None if row is None else LaneRow(*row)
    return lane if lane is not None else _make_lane(connection, job)


def _make_lane(connection: sqlite3.Connection, job: WholeJob) -> LaneRow:
    made = connection.execute(
        "insert into lane (queue, key, kind, priority, round) values (?, ?, ?, ?, ?)",
        (job.queue, job.key, job.kind, job.priority, job.round),
    )
    assert made.lastrowid is not None
    connection.execute("insert into tail (lane) values (?)", (made.lastrowid,))
    return LaneRow(made.lastrowid, job.queue, job.key)

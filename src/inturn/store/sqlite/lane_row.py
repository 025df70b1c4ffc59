"""A lane's row: read, moved and written back whole, with its rank always worked out afresh; and
jobs that come to its tail.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queues import QueueRow
from inturn.store.sqlite.rows import Micros, WholeJob, rank


class LaneRow(msgspec.Struct):
    """The columns of a lane, and where its tail is."""

    id: int
    queue: str
    key: str | None
    kind: str = ""
    priority: int = 0
    round: int = 0
    head: int = 1
    cursor: int = 1
    active: int = 0
    rank_at: Micros | None = None
    waiting_since: Micros | None = None
    ready_at: Micros | None = None
    token: int | None = None
    head_attempt: int = 0
    head_crashes: int = 0
    head_errors: str | None = None
    suspect_last: int = 0
    halted_at: Micros | None = None
    halted_job: bytes | None = None
    paused_at: Micros | None = None
    paused_by: str | None = None
    last: int = 0
    last_round: int = 0

    def take_back(self, position: int) -> None:
        """End the lease on a keyed lane; the job at ``position`` is its head."""
        self.head = self.cursor = position
        self.token = None

    def forget_head(self) -> None:
        """Start counting afresh, for another head or for fresh attempts."""
        self.head_attempt = self.head_crashes = 0
        self.head_errors = self.ready_at = self.halted_at = self.halted_job = None

    def is_claimable(self) -> bool:
        """Say whether nothing but its round keeps the lane from being claimed."""
        return bool(self.active) and all(
            held is None for held in (self.token, self.ready_at, self.halted_at, self.paused_at)
        )


def load(connection: sqlite3.Connection, lane: int) -> LaneRow | None:
    """Return a lane by its id, or nothing."""
    row = connection.execute(query("lane") + " where lane.id = ?", (lane,)).fetchone()
    return None if row is None else LaneRow(*row)


def find(connection: sqlite3.Connection, queue: str, key: str) -> LaneRow | None:
    """Return the lane of a key, or nothing."""
    statement = query("lane") + " where lane.queue = ? and lane.key = ?"
    row = connection.execute(statement, (queue, key)).fetchone()
    return None if row is None else LaneRow(*row)


def refresh(connection: sqlite3.Connection, queue: QueueRow, lane: LaneRow) -> None:
    """Write a lane back after it moved: pass what is cancelled, and look at the job at its cursor.

    Of a lane that is leased only the first waiting job is looked at: its head is with a worker.
    """
    if lane.token is None and lane.halted_at is None:
        _pass_cancelled(connection, lane)
        lane.active = int(lane.cursor <= lane.last)
    if lane.token is None and lane.active:
        head = "select kind, priority, round from job where lane = ? and position = ?"
        row = connection.execute(head, (lane.id, lane.cursor)).fetchone()
        if row is not None:
            lane.kind, lane.priority, lane.round = row
    lane.waiting_since = first_waiting(connection, lane)
    lane.rank_at = None
    if lane.is_claimable() and lane.waiting_since is not None:
        lane.rank_at = rank(lane.waiting_since, lane.priority, queue.aging_seconds)
    save(connection, lane)


def first_waiting(connection: sqlite3.Connection, lane: LaneRow) -> Micros | None:
    """Return when the first job that waits in a lane was accepted, or nothing if none does."""
    position = lane.cursor + (lane.halted_at is not None)
    if position > lane.last:
        return None
    row = connection.execute(query("first_waiting"), (lane.id, position)).fetchone()
    return None if row is None else row[0]


def depth(connection: sqlite3.Connection, lane: LaneRow) -> int:
    """Return how many positions of a lane are neither claimed nor cancelled."""
    return (
        lane.last - lane.cursor + 1 - cancelled_between(connection, lane.id, lane.cursor, lane.last)
    )


def cancelled_between(connection: sqlite3.Connection, lane: int, first: int, last: int) -> int:
    """Return how many of a lane's positions from first to last are cancelled."""
    if first > last:
        return 0
    statement = "select count(*) from cancelled where lane = ? and position between ? and ?"
    count: int = connection.execute(statement, (lane, first, last)).fetchone()[0]
    return count


def save(connection: sqlite3.Connection, lane: LaneRow) -> None:
    """Write a lane's columns back."""
    id, _queue, _key, *columns, _last, _last_round = msgspec.structs.astuple(lane)
    connection.execute(query("save_lane"), (*columns, id))


def _pass_cancelled(connection: sqlite3.Connection, lane: LaneRow) -> None:
    """Move a lane's cursor past cancelled positions; a keyed lane has another head then."""
    statement = "select 1 from cancelled where lane = ? and position = ?"
    start = lane.cursor
    while connection.execute(statement, (lane.id, lane.cursor)).fetchone() is not None:
        lane.cursor += 1
    if lane.key is not None and lane.cursor > start:
        lane.head = lane.cursor
        lane.forget_head()


# At the tail

Place = tuple[int, int]  # lane and position

_ROWS_TOGETHER = 50
_COLUMNS = (
    "lane, position, id, kind, payload, priority, round, attempts_max, timeout_seconds, enqueued_at"
)
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
    row = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    return f"insert into job ({_COLUMNS}) values {', '.join([row] * count)}"


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
    save(connection, lane)


def _lane_name(job: WholeJob) -> tuple[Any, ...]:
    if job.key is not None:
        return job.queue, job.key
    return job.queue, None, job.kind, job.priority, job.round


def _lane_of(connection: sqlite3.Connection, job: WholeJob) -> LaneRow:
    """Return the lane a job belongs to, making it if need be."""
    if job.key is not None:
        lane = find(connection, job.queue, job.key)
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

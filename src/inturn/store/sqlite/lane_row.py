"""A lane's row: read, moved and written back whole, with its rank always worked out afresh."""

from __future__ import annotations

import sqlite3

import msgspec

from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queues import QueueRow
from inturn.store.sqlite.rows import Micros, rank


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

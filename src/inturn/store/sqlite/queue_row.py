"""A queue's row: how it behaves and how far its gate is open."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import msgspec

from inturn.store.sqlite.rows import Micros

_COLUMNS = (
    "name, gate, on_dead, depth_max, lane_depth_max, keep_done_seconds, aging_seconds, "
    "paused_at, paused_by"
)


class QueueRow(msgspec.Struct, frozen=True):
    """The columns of a queue."""

    name: str
    gate: int
    on_dead: str
    depth_max: int | None
    lane_depth_max: int | None
    keep_done_seconds: float
    aging_seconds: float
    paused_at: Micros | None
    paused_by: str | None


def find(connection: sqlite3.Connection, name: str) -> QueueRow | None:
    """Return a queue, or nothing."""
    statement = f"select {_COLUMNS} from queue where name = ?"
    row = connection.execute(statement, (name,)).fetchone()
    return None if row is None else QueueRow(*row)


def made(connection: sqlite3.Connection, name: str) -> QueueRow:
    """Return a queue, making it if need be."""
    found = find(connection, name)
    if found is None:
        connection.execute("insert into queue (name) values (?)", (name,))
        found = find(connection, name)
        assert found is not None
    return found


def all_made(connection: sqlite3.Connection, names: Iterable[str]) -> dict[str, QueueRow]:
    """Return queues by name, making those that are not there."""
    return {name: made(connection, name) for name in sorted(set(names))}


def every(connection: sqlite3.Connection) -> list[QueueRow]:
    """Return every queue by name."""
    rows = connection.execute(f"select {_COLUMNS} from queue order by name")
    return [QueueRow(*row) for row in rows]

"""Dropping: a dead letter is cancelled for good, and what waits for it is buried."""

from __future__ import annotations

import sqlite3

from inturn.store.sqlite.dependents import forsake
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.times import Micros


def drop(connection: sqlite3.Connection, now: Micros, job: bytes, *, by: str) -> None:
    """Move a dead letter to the cancelled jobs."""
    ended = f"dropped by {by}"
    connection.execute(query("drop_dead"), (now, by, ended, job))
    connection.execute("delete from dead where id = ?", (job,))
    forsake(connection, now, job, ended=ended)

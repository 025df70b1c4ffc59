"""Opening the file: a new one gets its tables, and one of another version is refused."""

from __future__ import annotations

import sqlite3

from inturn.model.clock import Clock
from inturn.store.sqlite.connection import Synchronous, open_writer
from inturn.store.sqlite.faults import store_error
from inturn.store.sqlite.migrate import check_taken, check_version, is_empty, migrate
from inturn.store.sqlite.times import micros


def open_checked(
    path: str, clock: Clock, *, synchronous: Synchronous, busy_seconds: float
) -> sqlite3.Connection:
    """Open the connection that writes, on tables of this version."""
    connection = open_writer(
        path, synchronous=synchronous, busy_seconds=busy_seconds, check=check_taken
    )
    try:
        if is_empty(connection):
            _migrate(connection, clock)
        check_version(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise store_error(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def migrate_closed(
    path: str, clock: Clock, *, synchronous: Synchronous, busy_seconds: float
) -> int:
    """Migrate a file that nobody here has open; return its version."""
    connection = open_writer(
        path, synchronous=synchronous, busy_seconds=busy_seconds, check=check_taken
    )
    try:
        return _migrate(connection, clock)
    except sqlite3.Error as error:
        raise store_error(error, path) from error
    finally:
        connection.close()


def _migrate(connection: sqlite3.Connection, clock: Clock) -> int:
    connection.execute("begin immediate")
    try:
        version = migrate(connection, micros(clock.now()))
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    return version

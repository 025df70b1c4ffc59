"""Opening the file: a new one gets its tables, and one of another version is refused."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable

from inturn.model.clock import Clock
from inturn.store.sqlite.connection import Synchronous, open_writer
from inturn.store.sqlite.faults import store_error
from inturn.store.sqlite.migrate import check_taken, check_version, is_empty, migrate
from inturn.store.sqlite.times import micros


async def opened_aside(opens: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
    """Open a connection on a thread, and close it if nobody waits for it any more."""
    lock = threading.Lock()
    is_waited_for = True
    opened: list[sqlite3.Connection] = []

    def open_aside() -> sqlite3.Connection:
        connection = opens()
        with lock:
            opened.append(connection)
            if not is_waited_for:
                connection.close()
        return connection

    try:
        return await asyncio.to_thread(open_aside)
    except BaseException:
        with lock:
            is_waited_for = False
            for connection in opened:
                connection.close()
        raise


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

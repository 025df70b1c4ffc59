"""Connections to the file: how each is opened, what it may do, and on which tables."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from inturn.model.clock import Clock
from inturn.model.errors import StoreUnavailable
from inturn.store.schema import Schema
from inturn.store.sqlite.faults import folder_missing, may_not_write, no_wal, store_error
from inturn.store.sqlite.file import MEMORY, check_not_inherited
from inturn.store.sqlite.migrate import check_engine, check_taken, is_empty, migrate
from inturn.store.sqlite.rows import micros

Synchronous = Literal["full", "normal"]

_WAL_BYTES_KEPT = 64 * 1024 * 1024
_CACHE_KIBIBYTES = 32 * 1024
_STATEMENTS_CACHED = 256


def open_writer(
    path: str,
    *,
    synchronous: Synchronous,
    busy_seconds: float,
    check: Callable[[sqlite3.Connection, str], None] | None = None,
) -> sqlite3.Connection:
    """Open the connection that writes, in WAL mode, making the file if need be.

    ``check`` looks at the file before anything of it is changed, and raises to leave it as it is.
    """
    if path != MEMORY:
        _check_folder(path)
        check_not_inherited(path)
    with _opened(path, busy_seconds) as connection:
        connection.execute("select count(*) from sqlite_master").fetchone()  # is it a database?
        if check is not None:
            check(connection, path)
        use_wal(connection, path, busy_seconds)
        connection.execute(f"pragma synchronous = {synchronous}")
        connection.execute(f"pragma journal_size_limit = {_WAL_BYTES_KEPT}")
        return connection


def _check_folder(path: str) -> None:
    """Refuse a file whose folder is not there, or is not ours to enter."""
    folder = Path(path).parent
    try:
        if folder.is_dir():
            return
    except PermissionError as error:
        raise may_not_write(path, error) from error
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be opened: {error}.") from error
    raise folder_missing(path, str(folder))


def open_reader(path: str, *, busy_seconds: float) -> sqlite3.Connection:
    """Open a connection that cannot write."""
    with _opened(path, busy_seconds) as connection:
        connection.execute("pragma query_only = on")
        return connection


@contextmanager
def _opened(path: str, busy_seconds: float) -> Iterator[sqlite3.Connection]:
    """Open a connection that stays open unless something fails before it is ready."""
    connection: sqlite3.Connection | None = None
    try:
        connection = _connect(path, busy_seconds)
        connection.execute(f"pragma cache_size = -{_CACHE_KIBIBYTES}")
        yield connection
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.Error):
            raise store_error(error, path) from error
        raise


def _connect(path: str, busy_seconds: float) -> sqlite3.Connection:
    return sqlite3.connect(
        path,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_STATEMENTS_CACHED,
    )


def use_wal(connection: sqlite3.Connection, path: str, busy_seconds: float) -> None:
    """Switch to WAL, for which SQLite does not wait by itself when another does the same."""
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            [mode] = connection.execute("pragma journal_mode = wal").fetchone()
            if path != MEMORY and mode != "wal":
                raise no_wal(path, mode)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if time.monotonic() > deadline:
                raise
        time.sleep(0.005)


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
        check_engine(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise store_error(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def migrate_closed(
    path: str,
    clock: Clock,
    *,
    schemas: list[Schema],
    synchronous: Synchronous,
    busy_seconds: float,
) -> int:
    """Migrate a file that nobody here has open; return the engine's version."""
    connection = open_writer(
        path, synchronous=synchronous, busy_seconds=busy_seconds, check=check_taken
    )
    try:
        return _migrate(connection, clock, schemas)
    except sqlite3.Error as error:
        raise store_error(error, path) from error
    finally:
        connection.close()


def _migrate(connection: sqlite3.Connection, clock: Clock, schemas: Iterable[Schema] = ()) -> int:
    connection.execute("begin immediate")
    try:
        version = migrate(connection, micros(clock.now()), schemas)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    return version

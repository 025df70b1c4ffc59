"""SQL on the databases that steps are about: PostgreSQL and SQLite. Not the store's own."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

from inturn.groups.errors import ActionFailed, NotBegun
from inturn.policy.retry import Reject

CONNECT_SECONDS_MAX = 10.0
CLOSE_SECONDS_MAX = 2.0
STEPS_BETWEEN_LOOKS = 1_000  # of SQLite's machine

# Classes of SQLSTATE that say: this statement is wrong, and its transaction was rolled back.
_WRONG = ("0A", "22", "23", "2F", "42")
_WRONG_SQLITE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH)


async def execute(address: str, text: str) -> None:
    """Run statements in one transaction."""
    if address.startswith("sqlite:"):
        script = f"begin immediate;\n{text}\n;commit"
        await _on_sqlite(address, lambda connection: connection.executescript(script))
    else:
        await _on_postgres(address, lambda connection: connection.execute(text))


async def first_value(address: str, text: str) -> Any:
    """Run one statement and return the first value of its first row; None if there is no row."""
    if address.startswith("sqlite:"):
        row = await _on_sqlite(address, lambda connection: connection.execute(text).fetchone())
        return None if row is None else row[0]
    return await _on_postgres(address, lambda connection: connection.fetchval(text))


async def _on_postgres(address: str, work: Callable[[Any], Any]) -> Any:
    try:
        import asyncpg
    except ModuleNotFoundError as error:
        raise NotBegun(
            "SQL on PostgreSQL needs asyncpg: install inturn with its extra 'postgres'"
        ) from error
    try:
        connection = await asyncpg.connect(address, timeout=CONNECT_SECONDS_MAX)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise NotBegun(f"its node cannot be reached: {error}") from error
    try:
        return await work(connection)
    except asyncpg.PostgresError as error:
        if (error.sqlstate or "")[:2] in _WRONG:
            raise Reject(f"{type(error).__name__}: {error}") from error
        raise ActionFailed(f"{type(error).__name__}: {error}") from error
    finally:
        with suppress(Exception):
            await connection.close(timeout=CLOSE_SECONDS_MAX)


async def _on_sqlite(address: str, work: Callable[[sqlite3.Connection], Any]) -> Any:
    """Run on a thread; cancelled, end what runs there, and wait until it has."""
    path, stopped = address.removeprefix("sqlite://").removeprefix("/"), threading.Event()

    def run() -> Any:
        try:
            connection = sqlite3.connect(path, timeout=CONNECT_SECONDS_MAX, isolation_level=None)
        except sqlite3.Error as error:
            raise NotBegun(f"{path} cannot be opened: {error}") from error
        with closing(connection):
            connection.set_progress_handler(stopped.is_set, STEPS_BETWEEN_LOOKS)
            try:
                return work(connection)
            except sqlite3.Error as error:
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                if code in _WRONG_SQLITE:
                    raise Reject(f"{type(error).__name__}: {error}") from error
                raise ActionFailed(f"{type(error).__name__}: {error}") from error

    running = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stopped.set()
        with suppress(Exception):
            await running
        raise

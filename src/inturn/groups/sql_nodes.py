"""SQL on the databases that steps are about: PostgreSQL and SQLite. Not the store's own."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from hashlib import blake2b
from typing import Any

from inturn.groups.errors import NO_ADDRESS, ActionFailed, NothingDone
from inturn.policy.retry import Reject

CONNECT_SECONDS_MAX = 10.0
CLOSE_SECONDS_MAX = 2.0
STEPS_BETWEEN_LOOKS = 1_000  # of SQLite's machine
CLIENT_LOOK = "500ms"  # how often PostgreSQL looks whether the worker of a statement still lives

# Classes of SQLSTATE that say: this statement is wrong, and its transaction was rolled back.
_WRONG = ("0A", "22", "23", "2F", "42")
_WRONG_SQLITE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH)

# Those that say: it was rolled back for others' sake (a deadlock, a lock, no room), try again.
_ROLLED_BACK = ("40", "53", "55")
_ROLLED_BACK_SQLITE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL)


async def execute(address: str, text: str, step: str) -> None:
    """Run statements in one transaction, after what an attempt before at the step still runs."""
    if address.startswith("sqlite:"):
        script = f"begin immediate;\n{text}\n;commit"
        await _on_sqlite(address, lambda connection: connection.executescript(script))
    else:

        async def run(connection: Any) -> None:
            await connection.execute("select pg_advisory_lock($1)", _lock_of(step))
            await connection.execute(text)

        await _on_postgres(address, run, text)


async def still_runs(address: str, step: str) -> bool:
    """Say whether a statement of the step runs on the node: of a worker that has died, too.

    On SQLite a statement ends with its worker.
    """
    if address.startswith("sqlite:"):
        return False
    query = "select pg_try_advisory_lock_shared($1)"
    return not await _on_postgres(
        address, lambda connection: connection.fetchval(query, _lock_of(step))
    )


async def first_value(address: str, text: str) -> Any:
    """Run one statement and return the first value of its first row; None if there is no row."""
    if address.startswith("sqlite:"):
        row = await _on_sqlite(address, lambda connection: connection.execute(text).fetchone())
        return None if row is None else row[0]
    return await _on_postgres(address, lambda connection: connection.fetchval(text))


def _lock_of(step: str) -> int:
    """Return the advisory lock that a session holds while it runs statements of a step."""
    return int.from_bytes(blake2b(step.encode(), digest_size=8).digest(), signed=True)


async def _on_postgres(address: str, work: Callable[[Any], Any], text: str = "") -> Any:
    try:
        import asyncpg
    except ModuleNotFoundError as error:
        raise NothingDone(
            "SQL on PostgreSQL needs asyncpg: install inturn with its extra 'postgres'"
        ) from error
    try:
        connection = await asyncpg.connect(address, timeout=CONNECT_SECONDS_MAX)
    except ValueError:
        raise NothingDone(NO_ADDRESS) from None  # the error might name a part of a password
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise NothingDone(f"its node cannot be reached: {error}") from error
    try:
        with suppress(asyncpg.PostgresError):  # before PostgreSQL 14, and where it cannot look
            await connection.execute(f"set client_connection_check_interval = '{CLIENT_LOOK}'")
        return await work(connection)
    except asyncpg.PostgresError as error:
        if "concurrently" in text.lower():  # outside a transaction: a part of it may be there
            raise _failure(error, None, (), ()) from error
        raise _failure(error, (error.sqlstate or "")[:2], _WRONG, _ROLLED_BACK) from error
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
            raise NothingDone(f"{path} cannot be opened: {error}") from error
        with closing(connection):
            connection.set_progress_handler(stopped.is_set, STEPS_BETWEEN_LOOKS)
            try:
                return work(connection)
            except sqlite3.Error as error:
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                raise _failure(error, code, _WRONG_SQLITE, _ROLLED_BACK_SQLITE) from error

    running = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stopped.set()
        with suppress(Exception):
            await running
        raise


def _failure(
    error: Exception, code: object, wrong: Collection[object], rolled_back: Collection[object]
) -> Exception:
    """Return what a database's error says about the attempt."""
    said = f"{type(error).__name__}: {error}"
    if code in wrong:
        return Reject(said)
    return NothingDone(said) if code in rolled_back else ActionFailed(said)

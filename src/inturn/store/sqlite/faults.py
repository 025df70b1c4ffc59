"""What SQLite's errors mean for a caller: which error of inturn, and what to do."""

from __future__ import annotations

import os
import sqlite3

from inturn.model.errors import NoRights, StoreBusy, StoreError, StoreFull, StoreUnavailable


def store_error(error: sqlite3.Error, path: str) -> StoreError:
    """Return the error of inturn that says what an error of SQLite means, and what to do."""
    code = (
        getattr(error, "sqlite_errorcode", None) or 0
    ) & 0xFF  # the low byte is the primary code
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(
            f"{path} is locked by another process, which holds a write transaction open. Nothing "
            f"was written. Try again; if it lasts, look for a program that keeps the file locked "
            f"(`fuser {path}`), or open the store with a longer busy_seconds."
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(
            f"there is no room left for {path}: {error}. Nothing was written, and what was "
            f"accepted before is safe. Free some space; the store goes on by itself."
        )
    if code == sqlite3.SQLITE_CANTOPEN and not _may_write(path):
        return may_not_write(path, error)
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnavailable(
            f"{path} cannot be opened: {error}. See that it is a file, and that its folder exists."
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return may_not_write(path, error)
    if code == sqlite3.SQLITE_NOTADB:
        return not_a_database(path)
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreUnavailable(
            f"{path} is damaged: {error}. Stop its workers, keep a copy, and restore a backup or "
            f"run `sqlite3 {path} .recover`."
        )
    if code == sqlite3.SQLITE_IOERR:
        return StoreUnavailable(
            f"reading or writing {path} failed: {error}. Nothing was written. Look at the disk "
            f"and at the system's log, then try again."
        )
    return StoreError(f"{path}: {error}. Nothing was written.")


def not_a_database(path: str) -> StoreUnavailable:
    """Return the error for a file that is someone's, and no database."""
    return StoreUnavailable(
        f"{path} is not a SQLite database. It was left as it is; name another file."
    )


def may_not_write(path: str, error: Exception) -> NoRights:
    """Return the error for a file that this user may not write where it is."""
    return NoRights(
        f"{path} cannot be written: {error}. Give this user the right to write the file and its "
        f"folder (SQLite keeps {path}-wal and {path}-shm beside it)."
    )


def _may_write(path: str) -> bool:
    """Say whether this user may write a file and make others beside it."""
    may_make = os.access(os.path.dirname(path) or ".", os.W_OK | os.X_OK)
    return may_make and (not os.path.lexists(path) or os.access(path, os.R_OK | os.W_OK))


def folder_missing(path: str, folder: str) -> StoreUnavailable:
    """Return the error for a file whose folder is not there."""
    return StoreUnavailable(f"{path} cannot be opened: there is no folder {folder}. Make it first.")


def no_wal(path: str, mode: str) -> StoreUnavailable:
    """Return the error for a file that cannot be used in WAL mode."""
    return StoreUnavailable(
        f"SQLite cannot keep a write-ahead log for {path} and stays in the journal mode {mode!r}: "
        f"its file system has no memory that processes share, as network drives do not. Nothing "
        f"was changed. Put the file on a disk of this machine."
    )


def not_open(path: str) -> StoreUnavailable:
    """Return the error for a verb on a store that is not open."""
    return StoreUnavailable(f"the store {path} is not open. Call open() first.")


def own_transaction(path: str) -> StoreError:
    """Return the error for a call that would wait for its own caller's transaction for ever."""
    return StoreError(
        f"this would wait for ever: it was called, or its asyncio task was started, inside a "
        f"transaction that is open on {path}, and SQLite has one writer. Use the transaction's own "
        f"enqueue, settle or execute, or call it when the transaction is over."
    )


def transaction_over() -> StoreError:
    """Return the error for a verb of a transaction that was committed or rolled back."""
    return StoreError("this transaction is over. Open another with store.transaction().")

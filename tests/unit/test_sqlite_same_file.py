"""A SQLite file that is deleted or replaced while it is open, or that cannot have a WAL."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from inturn.model.errors import StoreReplaced, StoreUnavailable
from inturn.model.job import NewJob
from inturn.store.sqlite.connection import use_wal
from inturn.store.sqlite.store import SqliteStore


def deleted(path: Path) -> Path:
    path.unlink()
    return path


def replaced(path: Path) -> Path:
    other = path.with_name("other.db")
    shutil.copy(path, other)
    other.rename(path)
    return path


def without_wal(path: Path) -> Path:
    wal = path.with_name(f"{path.name}-wal")
    wal.unlink()
    return wal


def with_another_wal(path: Path) -> Path:
    wal = without_wal(path)
    wal.touch()
    return wal


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be deleted there")
@pytest.mark.parametrize("breaks", [deleted, replaced, without_wal, with_another_wal])
async def test_a_file_that_is_not_the_same_any_more_takes_no_more_writes(
    tmp_path: Path, breaks: Callable[[Path], Path]
) -> None:
    path = tmp_path / "work.db"
    store = SqliteStore(str(path))
    await store.open()
    try:
        await store.enqueue([NewJob(kind="k")])
        [claimed] = await store.claim("default", jobs_max=1, worker="w")
        refused = ""
        try:
            async with store.transaction() as transaction:
                await transaction.enqueue([NewJob(kind="k")])
                named = breaks(path)
        except StoreReplaced as error:
            refused = str(error)
        assert named.name in refused
        for verb in (store.enqueue([NewJob(kind="k")]), store.extend([claimed.lease])):
            with pytest.raises(StoreReplaced, match="put the right file back"):
                await verb
    finally:
        await store.close()


async def test_a_file_that_is_used_for_long_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other stores come and go, the log is emptied, and this program goes to another folder."""
    path = tmp_path / "work.db"
    monkeypatch.chdir(tmp_path)
    store = SqliteStore("work.db")
    await store.open()
    try:
        monkeypatch.chdir(tmp_path.parent)
        for _ in range(3):
            other = SqliteStore(str(path))
            await other.open()
            await other.enqueue([NewJob(kind="k")])
            await other.close()
            with sqlite3.connect(path) as connection:
                connection.execute("pragma wal_checkpoint(truncate)")
            connection.close()
            await store.enqueue([NewJob(kind="k")])
        [status] = await store.queues()
        assert status.waiting == 6
    finally:
        await store.close()


def test_a_file_that_cannot_have_a_write_ahead_log_is_refused(tmp_path: Path) -> None:
    """As on a network drive: SQLite's own file system without shared memory."""
    path = tmp_path / "work.db"
    connection = sqlite3.connect(f"file:{path}?vfs=unix-none", uri=True)
    try:
        with pytest.raises(StoreUnavailable, match=r"write-ahead log .*'delete'"):
            use_wal(connection, str(path), 0.1)
    finally:
        connection.close()

"""What the SQLite store says, and keeps, when its file cannot be used."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inturn.model.errors import (
    SchemaMissing,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
)
from inturn.model.job import NewJob
from inturn.policy.settlement import Settlement
from inturn.store.sqlite.migrate import MIGRATIONS
from inturn.store.sqlite.store import SqliteStore

LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("begin immediate")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked_by_another(path: Path) -> Iterator[None]:
    """Let another process hold the file's write lock."""
    command = [sys.executable, "-c", LOCK, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        yield
        assert other.stdin is not None
        other.stdin.close()


async def drained(store: SqliteStore) -> int:
    count = 0
    while claims := await store.claim("default", jobs_max=100, worker="w"):
        count += sum(len(claim.jobs) for claim in claims)
        await store.settle([Settlement.done(claim) for claim in claims], worker="w")
    return count


async def test_a_file_locked_by_another_process_is_busy_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    path = tmp_path / "work.db"
    store = SqliteStore(str(path), busy_seconds=0.1)
    await store.open()
    await store.enqueue([NewJob(kind="k")])
    with locked_by_another(path):
        calls = [store.enqueue([NewJob(kind="k")]) for _ in range(5)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(outcome, StoreBusy) for outcome in outcomes)
        with pytest.raises(StoreBusy, match="locked by another process"):
            async with store.transaction():
                pass
        assert [status.waiting for status in await store.queues()] == [1]
    await store.enqueue([NewJob(kind="k")])
    assert await drained(store) == 2
    assert await store.check() == []
    await store.close()


async def test_a_full_disk_refuses_and_loses_nothing_and_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    store = SqliteStore(str(tmp_path / "work.db"))
    await store.open()
    payload = '"' + "x" * 20_000 + '"'
    await store.enqueue([NewJob(kind="k", payload=payload)])
    connection = store._open_writer()._connection
    [pages] = connection.execute("pragma page_count").fetchone()
    connection.execute(f"pragma max_page_count = {pages + 20}")
    accepted = 1
    for _ in range(100):
        try:
            await store.enqueue([NewJob(kind="k", payload=payload)])
        except StoreFull as error:
            assert "no room left" in str(error)  # noqa: PT017
            break
        accepted += 1
    else:
        pytest.fail("the disk was never full")

    async def fill() -> None:
        async with store.transaction() as transaction:
            for _ in range(20):
                await transaction.enqueue([NewJob(kind="k", payload=payload)])

    with pytest.raises(StoreFull):
        await fill()
    connection.execute("pragma max_page_count = 1073741823")
    await store.enqueue([NewJob(kind="k", payload=payload)])
    assert await store.check() == []
    assert await drained(store) == accepted + 1
    await store.close()


@pytest.mark.parametrize("text", ["Dear Sir or Madam, " * 500, "ab"])
async def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "letter.txt"
    path.write_text(text)
    before = path.read_bytes()
    store = SqliteStore(str(path))
    with pytest.raises(StoreUnavailable, match="not a SQLite database"):
        await store.open()
    with pytest.raises(StoreUnavailable, match="not a SQLite database"):
        await store.migrate()
    assert path.read_bytes() == before


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "nowhere" / "work.db"))
    with pytest.raises(StoreUnavailable, match=r"no folder .*nowhere"):
        await store.open()
    assert not (tmp_path / "nowhere").exists()


async def test_a_database_of_someone_else_must_be_migrated_first(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    connection = sqlite3.connect(path)
    connection.execute("create table customer (id integer primary key)")
    connection.commit()
    connection.close()
    store = SqliteStore(str(path))
    with pytest.raises(SchemaMissing, match="inturn store migrate"):
        await store.open()
    assert await store.migrate() == len(MIGRATIONS)
    assert await store.migrate() == len(MIGRATIONS)
    await store.open()
    assert await store.migrate() == len(MIGRATIONS)
    await store.enqueue([NewJob(kind="k")])
    await store.close()

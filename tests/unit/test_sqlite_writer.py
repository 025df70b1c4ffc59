"""The SQLite writer: calls that come together share a commit, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from inturn.model.errors import QueueFull, StoreError, StoreUnavailable
from inturn.model.job import NewJob
from inturn.model.lane import QueueSettings
from inturn.store.address import connect
from inturn.store.sqlite.store import SqliteStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "work.db"))
    await store.open()
    yield store
    assert await store.check() == []
    await store.close()


def count_commits(store: SqliteStore) -> list[str]:
    """Note every commit of the store's writer from now on."""
    commits: list[str] = []
    connection = store._open_writer()._connection
    connection.set_trace_callback(lambda sql: commits.append(sql) if sql == "commit" else None)
    return commits


async def waiting(store: SqliteStore, queue: str = "default") -> int:
    return sum(status.waiting for status in await store.queues() if status.name == queue)


async def test_calls_that_come_together_share_commits(store: SqliteStore) -> None:
    commits = count_commits(store)
    await asyncio.gather(*(store.enqueue([NewJob(kind="k")]) for _ in range(200)))
    assert await waiting(store) == 200
    assert len(commits) <= 20


async def test_a_call_that_fails_does_not_spoil_its_neighbours(store: SqliteStore) -> None:
    await store.configure("small", QueueSettings(depth_max=1))
    calls: list[Any] = []
    for number in range(60):
        # Every third call fails after it has written something.
        jobs = [NewJob(kind="k"), NewJob(kind="k", queue="small"), NewJob(kind="k", queue="small")]
        calls.append(store.enqueue(jobs if number % 3 == 0 else [NewJob(kind="k")]))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    failed = [outcome for outcome in outcomes if isinstance(outcome, QueueFull)]
    assert len(failed) == 20
    assert all(isinstance(outcome, list) for outcome in outcomes if outcome not in failed)
    assert await waiting(store) == 40
    assert await waiting(store, "small") == 0


async def test_a_caller_that_is_cancelled_leaves_its_group_whole(store: SqliteStore) -> None:
    calls = [asyncio.ensure_future(store.enqueue([NewJob(kind="k")])) for _ in range(50)]
    await asyncio.sleep(0)
    for call in calls[::5]:
        call.cancel()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    accepted = [outcome for outcome in outcomes if isinstance(outcome, list)]
    assert len(accepted) == 40
    # A cancelled call has happened or it never will; nobody knows which, and both are whole.
    before = await waiting(store)
    assert 40 <= before <= 50
    await store.enqueue([NewJob(kind="k")])
    assert await waiting(store) == before + 1


async def test_a_cancelled_transaction_is_rolled_back_and_frees_the_writer(
    store: SqliteStore,
) -> None:
    entered = asyncio.Event()

    async def hold() -> None:
        async with store.transaction() as transaction:
            await transaction.enqueue([NewJob(kind="k")])
            entered.set()
            await asyncio.sleep(60)

    holding = asyncio.ensure_future(hold())
    await entered.wait()
    behind = asyncio.ensure_future(store.enqueue([NewJob(kind="k")]))
    await asyncio.sleep(0.01)
    assert not behind.done()
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    await behind
    assert await waiting(store) == 1


async def test_a_call_that_would_wait_for_its_own_transaction_is_refused(
    store: SqliteStore,
) -> None:
    async with store.transaction():
        with pytest.raises(StoreError, match="wait for ever"):
            await store.enqueue([NewJob(kind="k")])
        with pytest.raises(StoreError, match="wait for ever"):
            async with store.transaction():
                pass
        with pytest.raises(StoreError, match="wait for ever"):
            await asyncio.create_task(store.enqueue([NewJob(kind="k")]))
    await store.enqueue([NewJob(kind="k")])


async def test_a_store_that_is_closed_says_so(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "work.db"))
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.enqueue([NewJob(kind="k")])
    await store.open()
    accepted = asyncio.gather(*(store.enqueue([NewJob(kind="k")]) for _ in range(20)))
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    assert len(await accepted) == 20
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.queues()
    await store.open()
    assert await waiting(store) == 20
    await store.close()


@pytest.mark.parametrize(("option", "level"), [("", 2), ("?synchronous=normal", 1)])
async def test_every_commit_waits_for_the_disk_unless_told_otherwise(
    tmp_path: Path, option: str, level: int
) -> None:
    store = connect(f"sqlite:///{tmp_path / 'work.db'}{option}")
    await store.open()
    async with store.transaction() as t:
        assert await t.execute("pragma synchronous") == [(level,)]
        assert await t.execute("pragma journal_mode") == [("wal",)]
    await store.close()

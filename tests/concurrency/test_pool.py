"""Few connections, short patience, missing rights, a pooler in between."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from inturn.model.errors import NoRights, StoreBusy, StoreUnavailable
from inturn.model.job import NewJob, Ticket
from inturn.store.address import connect
from inturn.store.postgres import group_commit
from inturn.store.postgres.enqueue import enqueue as enqueue_verb
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.sql import FUNCTIONS
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.producer import Opening
from tests.concurrency.support import claim, done, drain, enqueue, ids, job, quickly


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.mark.parametrize("bound", ["lock_seconds", "statement_seconds"])
async def test_waiting_too_long_for_a_lock_is_said_to_be_busy(
    store: PostgresStore, database: str, producer: Opening, bound: str
) -> None:
    await enqueue(store, job("b"))
    open_one = await producer()
    made = await open_one.enqueue(job("a"))
    async with opened(database, **{bound: 0.3}) as hasty:
        began = time.monotonic()
        with pytest.raises(StoreBusy, match="gave up waiting"):
            await hasty.enqueue([job("a")])
        assert 0.2 < time.monotonic() - began < 8
        await quickly(hasty.enqueue([job("b")]))
    await open_one.commit()
    assert made[0] in await drain(store)


async def test_what_a_transaction_sets_for_its_session_ends_with_it(database: str) -> None:
    async with opened(database, connections_max=1) as store:
        for number in range(2):
            async with store.transaction() as t:
                [(found,)] = await t.execute("select current_setting('inturn.seen', true)")
                assert not found
                await t.execute("set inturn.seen = 'yes'")
                await t.execute(f"create temporary table own{number} (n int)")


async def test_a_store_that_is_closed_finishes_what_is_under_way(database: str) -> None:
    store = PostgresStore(database, connections_max=3)
    await store.open()
    verbs = [
        asyncio.create_task(store.enqueue([job(f"key {n}") for n in range(100)])) for _ in range(12)
    ]
    reads = [asyncio.create_task(store.queues()) for _ in range(5)]
    await asyncio.sleep(0)
    await quickly(store.close())
    assert [len(tickets) for tickets in await asyncio.gather(*verbs)] == [100] * 12
    await asyncio.gather(*reads)
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.queues()


async def test_a_transaction_cancelled_anywhere_leaves_a_good_connection(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(database, connections_max=1) as store:
        for number in range(300):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(number / 60_000), store.transaction() as t:
                    await t.enqueue([job("a")])
                    await t.execute("select pg_sleep(0.001)")
        await quickly(store.queues())
    assert caplog.records == []


async def test_a_call_cancelled_once_its_statement_is_prepared_leaves_a_good_connection(
    database: str,
) -> None:
    async def cancelled(connection: Connection) -> None:
        await connection.prepare("select count(*) from inturn.job")  # no end of it is sent
        raise asyncio.CancelledError

    async with opened(database, connections_max=1) as store:
        with pytest.raises(asyncio.CancelledError):
            await store._pool.run(cancelled)
        assert await store.check() == []  # begins a transaction of another isolation


async def test_fifty_callers_share_two_connections(database: str) -> None:
    """(003-27)"""
    async with opened(database, connections_max=2) as store:

        async def call(number: int) -> int:
            await store.enqueue([job(f"key {number % 7}"), job()])
            claims = await claim(store, 5, worker=f"w{number}")
            await done(store, claims, f"w{number}")
            await store.queues()
            return len(ids(claims))

        async with asyncio.timeout(40):
            counts = await asyncio.gather(*(call(number) for number in range(50)))
        assert sum(counts) + len(await drain(store)) == 100


async def test_a_pool_that_others_keep_busy_says_so_after_a_while(database: str) -> None:
    async with opened(database, connections_max=1, patience_seconds=0.2) as store:
        async with store.transaction():
            for verb in (store.queues(), store.enqueue([job()]), claim(store)):
                with pytest.raises(StoreBusy, match=r"all 1 .* in use.*[Nn]othing was sent"):
                    await quickly(asyncio.ensure_future(verb))
            with pytest.raises(StoreBusy, match="connections_max"):
                async with store.transaction():
                    pass
        assert await quickly(store.queues()) == []


async def test_a_job_that_was_cut_off_and_then_finds_no_connection_may_be_committed(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was told that nothing was sent would submit it again, and have it twice."""
    is_stored, let_go = asyncio.Event(), asyncio.Event()

    async def cut(connection: Any, jobs: Sequence[NewJob], now: Any) -> list[Ticket]:
        await enqueue_verb(connection, jobs, now)
        is_stored.set()
        await asyncio.sleep(0.05)
        raise ConnectionResetError("cut")

    async def occupy(store: PostgresStore) -> None:
        await is_stored.wait()
        async with store.transaction():
            await let_go.wait()

    async with opened(database, connections_max=1, patience_seconds=0.5) as store:
        await store.enqueue([job()])
        monkeypatch.setattr(group_commit, "enqueue", cut)
        other = asyncio.ensure_future(occupy(store))
        with pytest.raises(StoreUnavailable, match=r"cut.*may or may not be committed"):
            await quickly(store.enqueue([job()]))
        let_go.set()
        await quickly(other)
        assert len(await drain(store)) == 2


async def test_a_store_behind_a_pooler_keeps_nothing_in_its_session(
    database: str, store: PostgresStore
) -> None:
    behind = connect(f"{database}?pooler=transaction")
    await behind.open()
    try:
        made = await enqueue(behind, job("a"), job())
        made += await enqueue(behind, *(job("b") for _ in range(60)))
        async with behind.transaction() as transaction:
            [[prepared]] = await transaction.execute("select count(*) from pg_prepared_statements")
            [[heard]] = await transaction.execute("select count(*) from pg_listening_channels()")
        assert (prepared, heard) == (0, 0)
        began = time.monotonic()
        await behind.wait(["default"], timeout_seconds=0.1)
        assert time.monotonic() - began < 8
        claims = await claim(behind, 100)
        assert await behind.extend([one.lease for one in claims]) == []
        await done(behind, claims)
        assert sorted(ids(claims)) == sorted(made)
        await behind.reclaim()
        await behind.prune()
        assert await behind.check() == []
        assert (await behind.job(made[0])).state == "done"
    finally:
        await behind.close()


@pytest.fixture
def stranger(database: str) -> Iterator[str]:
    """The database's url for a user who was granted nothing."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("drop role if exists stranger")
        connection.execute("create role stranger login")
    parts = urlsplit(database)
    yield urlunsplit(parts._replace(netloc=f"stranger@{parts.netloc.rpartition('@')[2]}"))
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("drop owned by stranger")
        connection.execute("drop role stranger")


async def test_a_user_without_rights_is_told_so(stranger: str) -> None:
    store = PostgresStore(stranger)
    with pytest.raises(NoRights, match="Grant the user"):
        await store.open()
    with pytest.raises(NoRights, match="Grant the user"):
        await store.migrate()
    await store.close()


@pytest.mark.parametrize("is_session_read_only", [False, True])
async def test_a_user_who_may_only_read_sees_large_queues(
    stranger: str, database: str, store: PostgresStore, is_session_read_only: bool
) -> None:
    rights = "all" if is_session_read_only else "select"
    with psycopg.connect(database, autocommit=True) as connection:
        for schema in ("inturn", FUNCTIONS):
            connection.execute(f"grant usage on schema {schema} to stranger")
            connection.execute(f"grant {rights} on all tables in schema {schema} to stranger")
        connection.execute(
            f"alter role stranger set default_transaction_read_only = {is_session_read_only}"
        )
    await store.enqueue([job(str(key)) for key in range(1_200)])
    async with opened(stranger) as reader:
        [queue] = await quickly(reader.queues())
    assert (queue.waiting, queue.lanes) == (1_200, 1_200)


async def test_a_user_with_rights_on_the_schema_may_do_all_a_worker_does(
    stranger: str, database: str, store: PostgresStore
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("grant usage on schema inturn to stranger")
        for kind in ("tables", "sequences"):
            connection.execute(f"grant all on all {kind} in schema inturn to stranger".encode())
    async with opened(stranger) as granted:
        made = await enqueue(granted, job("a"), job(), *(job("b") for _ in range(60)))
        claims = await claim(granted, 100)
        assert sorted(ids(claims)) == sorted(made)
        await done(granted, claims)
        await granted.reclaim()
        await granted.prune()

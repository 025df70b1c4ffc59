"""A database whose default isolation is stricter than ours, behind a pooler: no settings help."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import psycopg
import pytest
import pytest_asyncio

from inturn.policy.settlement import Settlement
from inturn.store.postgres.sql import called
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.conftest import migrate
from tests.concurrency.support import claim, done, drain, enqueue, ids, job, sound


@pytest_asyncio.fixture(params=["repeatable read", "serializable"])
async def strict(postgres_url: str, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    await migrate(postgres_url)
    name = postgres_url.rsplit("/", 1)[1]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            f"alter database {name} set default_transaction_isolation = '{request.param}'".encode()
        )
    yield postgres_url


async def test_verbs_that_cross_are_tried_again(strict: str) -> None:
    store = PostgresStore(strict, pooler=True)
    await store.open()
    made: list[UUID] = []
    ran: list[UUID] = []

    async def produce(number: int) -> None:
        for turn in range(15):
            made.extend(await enqueue(store, job(f"key {turn % 3}"), job(f"mine {number}"), job()))

    try:
        producing = asyncio.gather(*(produce(number) for number in range(4)))
        consuming = asyncio.gather(*(work(store, producing, ran, n) for n in range(4)))
        await producing
        await consuming
        ran += await drain(store)
        assert sorted(ran) == sorted(made)
        await sound(store)
    finally:
        await store.close()


async def work(
    store: PostgresStore, producing: asyncio.Future[list[None]], ran: list[UUID], number: int
) -> None:
    """Claim and finish jobs while others produce them."""
    while not producing.done():
        claims = await claim(store, 7, worker=f"w{number}")
        await done(store, claims, f"w{number}")
        ran.extend(ids(claims))
        await asyncio.sleep(0)


async def test_a_transaction_of_the_store_is_read_committed(strict: str) -> None:
    store = PostgresStore(strict, pooler=True)
    await store.open()
    try:
        await enqueue(store, job("a"))
        async with store.transaction() as transaction:
            [[level]] = await transaction.execute("show transaction_isolation")
            assert level == "read committed"
            [claimed] = await claim(store)  # after the transaction began
            await transaction.settle([Settlement.done(claimed)], worker="w1")
            await transaction.enqueue([job("b", queue="new")])
        await sound(store)
    finally:
        await store.close()


async def test_a_settle_that_began_before_a_dependent_was_admitted_releases_it(
    strict: str,
) -> None:
    """Its snapshot is from before, so it must fail to serialize, and see the dependent then."""
    store = PostgresStore(strict, pooler=True)
    await store.open()
    admitting = await asyncpg.connect(strict)
    try:
        [first] = await enqueue(store, job("a"))
        claims = await claim(store)
        async with admitting.transaction(isolation="read_committed"):
            await admitting.execute("select token from inturn.lease for update")
            settling = asyncio.ensure_future(done(store, claims))
            await _until_someone_waits(strict)
            [later] = await enqueue(store, job(queue="later", after=frozenset({first})))
            await admitting.execute(called("select inturn.recheck(10, clock_timestamp())"))
        async with asyncio.timeout(60):
            await settling
        assert await drain(store, "later") == [later]
        await sound(store)
    finally:
        await admitting.close()
        await store.close()


async def _until_someone_waits(url: str) -> None:
    """Return when a session of this database waits for another's lock."""
    watching = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(60):
            while not await watching.fetchval(  # noqa: ASYNC110
                "select exists (select from pg_stat_activity where datname = current_database() "
                "and wait_event_type = 'Lock')"
            ):
                await asyncio.sleep(0.02)
    finally:
        await watching.close()

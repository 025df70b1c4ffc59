"""A database whose default isolation is stricter than ours, behind a pooler: no settings help."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import psycopg
import pytest
import pytest_asyncio

from inturn.model.errors import StoreBusy
from inturn.policy.settlement import Settlement
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


async def test_who_crosses_for_too_long_is_told_that_the_store_is_busy(
    strict: str,
) -> None:
    """A function is made to fail so each time, as if others never rested."""
    with psycopg.connect(strict, autocommit=True) as connection:
        connection.execute(
            "create or replace function inturn.extend(p_tokens bigint[], p_lanes bigint[], "
            "p_lease_seconds double precision, p_now timestamptz) "
            "returns table (token bigint, lane bigint) language plpgsql as $$ begin "
            "raise exception 'could not serialize access' using errcode = '40001'; end $$"
        )
    store = PostgresStore(strict, pooler=True, patience_seconds=0.2)
    await store.open()
    try:
        await enqueue(store, job("a"))
        [claimed] = await claim(store)
        with pytest.raises(StoreBusy, match="read committed"):
            await store.extend([claimed.lease])
    finally:
        await store.close()

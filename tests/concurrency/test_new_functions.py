"""The SQL functions are made anew, by a migrate, while others use them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import psycopg
import pytest
import pytest_asyncio

from inturn.model.errors import FunctionsDiffer
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.conftest import migrate
from tests.concurrency.support import claim, done, drain, enqueue, ids, job, sound

ANOTHER = "comment on schema inturn is 'inturn''s functions of another version'"
FAILS_ONCE = """
create sequence public.tries;
create or replace function inturn.extend(
    p_tokens bigint[], p_lanes bigint[], p_lease_seconds double precision, p_now timestamptz
) returns table (token bigint, lane bigint, is_prolonged boolean) language plpgsql as $$
begin
    if nextval('public.tries') = 1 then
        raise exception 'cache lookup failed for function 4711' using errcode = 'XX000';
    end if;
    return query select *, false from unnest(p_tokens, p_lanes);
end $$
"""


@pytest_asyncio.fixture
async def own_store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """A store on a database of its own, whose functions may be changed."""
    await migrate(postgres_url)
    store = PostgresStore(postgres_url)
    await store.open()
    yield store
    await store.close()


def change(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


async def test_functions_of_another_version_are_refused_until_someone_migrates(
    own_store: PostgresStore, postgres_url: str
) -> None:
    change(postgres_url, ANOTHER)
    late = PostgresStore(postgres_url)
    try:
        with pytest.raises(FunctionsDiffer, match="inturn store migrate"):
            await late.open()
        await enqueue(own_store, job("a"))  # who is at work goes on
        await late.migrate()
        await late.open()
        assert len(await drain(late)) == 1
    finally:
        await late.close()


async def test_a_verb_whose_function_went_away_is_tried_again(
    own_store: PostgresStore, postgres_url: str
) -> None:
    await enqueue(own_store, job("a"))
    [claimed] = await claim(own_store)
    change(postgres_url, FAILS_ONCE)
    assert await own_store.extend([claimed.lease]) == []


async def test_functions_made_anew_under_load_disturb_nobody(
    own_store: PostgresStore, postgres_url: str
) -> None:
    made: list[UUID] = []
    ran: list[UUID] = []

    async def produce(number: int) -> None:
        while not renewing.done():
            made.extend(await enqueue(own_store, job(f"key {number}"), job()))

    async def consume(number: int) -> None:
        while not renewing.done():
            claims = await claim(own_store, 10, worker=f"w{number}")
            await own_store.extend([one.lease for one in claims])
            await done(own_store, claims, f"w{number}")
            ran.extend(ids(claims))

    async def renew() -> None:
        for _ in range(6):
            await asyncio.to_thread(change, postgres_url, ANOTHER)
            await migrate(postgres_url)

    renewing = asyncio.ensure_future(renew())
    await asyncio.gather(renewing, *map(produce, range(3)), *map(consume, range(3)))
    ran += await drain(own_store)
    assert sorted(ran) == sorted(made)
    await sound(own_store)

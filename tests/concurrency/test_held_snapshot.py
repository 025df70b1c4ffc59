"""Under a transaction that stays open no dead row can go: what is written anew needs room."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from inturn.store.postgres.store import PostgresStore
from tests.concurrency.conftest import migrate
from tests.concurrency.support import ask, drain, enqueue, jobs

PAGES = """
select json_object_agg(id, (ctid::text::point)[0] order by id) #>> '{}'
from inturn.lane where key is not null
"""


async def test_a_lane_waits_runs_and_rests_on_one_page(postgres_url: str) -> None:
    await migrate(postgres_url)
    store = PostgresStore(postgres_url)
    await store.open()
    held = await asyncpg.connect(postgres_url)
    try:
        await enqueue(store, *(job for key in range(500) for job in jobs(2, f"key {key}")))
        before = await ask(store, PAGES)
        await held.execute("begin isolation level repeatable read; select count(*) from pg_class")
        assert len(await drain(store, jobs_max=250)) == 1000
        assert await ask(store, "select count(*) from inturn.lane where active") == 0
        assert await ask(store, PAGES) == before
    finally:
        await held.close()
        await store.close()


KEYS = 60
ROUNDS = 30
MANY = 1000
"""A claim that reads so many entries of the index for nothing notes where the living begin."""

CLAIM = """
select lanes from inturn.claim('default', $1, 'w', 30, null, 0, null)
"""
ENTRIES = "select pg_stat_get_xact_tuples_returned('inturn.lane_claimable'::regclass)"
KEEP_NOTE = """
select set_config('inturn.floor', (note[1:4] || (now() + '1 minute')::text)::text, false)
from (select current_setting('inturn.floor')::text[] as note) noted
"""
EXPIRED = "select pg_sleep_until((current_setting('inturn.floor')::text[])[5]::timestamptz)"


@pytest.fixture
async def littered(postgres_url: str) -> AsyncIterator[tuple[PostgresStore, Any]]:
    """A store with a job for each key, where claims of before have left dead entries, and a
    connection of which a transaction is rolled back at the end."""
    await migrate(postgres_url)
    store = PostgresStore(postgres_url)
    await store.open()
    held = await asyncpg.connect(postgres_url)
    connection = await asyncpg.connect(postgres_url)
    try:
        await held.execute("begin isolation level repeatable read; select count(*) from pg_class")
        for _ in range(ROUNDS):
            await enqueue(store, *(one for key in range(KEYS) for one in jobs(1, f"key {key}")))
            assert len(await drain(store)) == KEYS
        await enqueue(store, *(one for key in range(KEYS) for one in jobs(1, f"key {key}")))
        await connection.execute("begin")
        yield store, connection
    finally:
        await connection.close()
        await held.close()
        await store.close()


async def entries_of_a_claim(connection: Any, jobs_max: int) -> int:
    before = await connection.fetchval(ENTRIES)
    assert len(await connection.fetchval(CLAIM, jobs_max)) == jobs_max
    return int(await connection.fetchval(ENTRIES) - before)


async def lane_of_an_urgent_job(store: PostgresStore) -> int:
    [ticket] = await store.enqueue(jobs(1, "urgent", priority=10))
    assert ticket.lane is not None
    return ticket.lane


async def test_what_died_under_an_open_transaction_is_not_read_with_every_claim(
    littered: tuple[PostgresStore, Any],
) -> None:
    _, connection = littered
    assert await entries_of_a_claim(connection, 2) > MANY
    await connection.execute(KEEP_NOTE)
    assert await entries_of_a_claim(connection, 2) < MANY / 10


async def test_what_has_become_more_urgent_meanwhile_waits_for_a_moment_only(
    littered: tuple[PostgresStore, Any],
) -> None:
    store, connection = littered
    await entries_of_a_claim(connection, 2)
    lane = await lane_of_an_urgent_job(store)
    await connection.execute(EXPIRED)
    assert await connection.fetchval(CLAIM, 1) == [lane]


async def test_what_has_become_more_urgent_is_found_at_once_when_less_is_there_than_wanted(
    littered: tuple[PostgresStore, Any],
) -> None:
    store, connection = littered
    await entries_of_a_claim(connection, 2)
    await connection.execute(KEEP_NOTE)
    lane = await lane_of_an_urgent_job(store)
    assert lane in await connection.fetchval(CLAIM, KEYS)

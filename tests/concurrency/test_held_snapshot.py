"""Under a transaction that stays open no dead row can go: what is written anew needs room."""

from __future__ import annotations

import asyncpg

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

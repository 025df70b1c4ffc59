"""A prune goes in small steps: none takes long, and what one took stays taken."""

from __future__ import annotations

import psycopg
import pytest

from inturn.model.errors import StoreError
from inturn.model.lane import QueueSettings
from inturn.store.postgres import prune
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.conftest import migrate
from tests.concurrency.support import ask, claim, drain, enqueue, job, jobs

JOBS = 400
SLOW_DELETE = """
create function public.slowly() returns trigger language plpgsql as $$
begin
    perform pg_sleep(0.02);
    return old;
end $$;
create trigger slowly before delete on inturn.job for each row execute function public.slowly();
"""
REFUSE_DELETE = """
create function public.refuse() returns trigger language plpgsql as $$
begin
    raise exception 'this one stays';
end $$;
create trigger refuse before delete on inturn.job for each row
when (old.position = 75) execute function public.refuse();
"""


@pytest.fixture
async def finished(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The url of a database with many finished jobs that are not to be kept."""
    monkeypatch.setattr(prune, "ROWS_TOGETHER", 10)
    monkeypatch.setattr(prune, "LANES_TOGETHER", 7)
    await migrate(postgres_url)
    store = PostgresStore(postgres_url)
    await store.open()
    await store.configure("default", QueueSettings(keep_done_seconds=0))
    made = await enqueue(store, *jobs(JOBS - 20, "hot"), *(job(f"key {n}") for n in range(20)))
    assert len(await drain(store, jobs_max=1_000)) == len(made)
    await store.close()
    return postgres_url


async def test_a_prune_of_much_history_outlives_a_short_statement_timeout(finished: str) -> None:
    with psycopg.connect(finished, autocommit=True) as connection:
        connection.execute(SLOW_DELETE)  # all of it takes 8 s, a step a fifth of a second
    store = PostgresStore(finished, statement_seconds=5)
    await store.open()
    try:
        pruned = await store.prune()
        assert (pruned.jobs, pruned.lanes) == (JOBS, 21)
        assert await ask(store, "select count(*) from inturn.job") == 0
        assert await store.check() == []
    finally:
        await store.close()


async def test_what_a_step_took_stays_taken_when_a_later_one_fails(finished: str) -> None:
    with psycopg.connect(finished, autocommit=True) as connection:
        connection.execute(REFUSE_DELETE)
    store = PostgresStore(finished)
    await store.open()
    try:
        with pytest.raises(StoreError, match="this one stays"):
            await store.prune()
        assert await ask(store, "select count(*) from inturn.job") == JOBS - 70
        assert await store.check() == []
        await ask(store, "drop trigger refuse on inturn.job")
        assert (await store.prune()).jobs == JOBS - 70
    finally:
        await store.close()


async def test_everything_that_expires_is_taken_however_much_it_is(finished: str) -> None:
    store = PostgresStore(finished)
    await store.open()
    try:
        keys = [f"mail {n}" for n in range(35)]
        made = await enqueue(store, *(job(dedupe=key, dedupe_seconds=0.001) for key in keys))
        for one in made:
            await store.cancel(one, by="ann")
        assert await claim(store) == []
        pruned = await store.prune()
        assert (pruned.dedupes, pruned.jobs) == (35, JOBS + 35)
        assert await ask(store, "select count(*) from inturn.cancelled") == 0
    finally:
        await store.close()

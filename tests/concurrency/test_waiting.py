"""A wait that is busy with something else when work arrives hears of it all the same."""

from __future__ import annotations

import asyncio

import asyncpg

from inturn.store.postgres.store import PostgresStore
from tests.concurrency.conftest import migrate
from tests.concurrency.support import quickly

BLOCKED = "select count(*) from pg_locks where not granted"
WAIT_SECONDS = 5.0


async def test_what_is_said_while_a_wait_looks_for_what_is_due_is_heard(postgres_url: str) -> None:
    await migrate(postgres_url)
    store = PostgresStore(postgres_url)
    await store.open()
    other = await asyncpg.connect(postgres_url)
    try:
        assert not await store.wait(["q"], timeout_seconds=0.01)  # from here on it listens
        async with other.transaction():
            await other.execute("lock table inturn.parked in access exclusive mode")
            waiting = asyncio.ensure_future(store.wait(["q"], timeout_seconds=WAIT_SECONDS))
            while not await quickly(other.fetchval(BLOCKED)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            speaker = await asyncpg.connect(postgres_url)
            await speaker.execute("select pg_notify('inturn', 'q')")
            await speaker.close()
            await asyncio.sleep(0.2)  # for the word to arrive
        assert await quickly(waiting)
    finally:
        await other.close()
        await store.close()

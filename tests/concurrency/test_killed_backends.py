"""Connections are cut, servers stop and start: verbs recover by themselves, and nothing is lost.

Promise P2 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Literal

import asyncpg
import pytest
import pytest_asyncio

from inturn.model.errors import StoreBusy, StoreError, StoreFull, StoreUnavailable
from inturn.model.job import JobState
from inturn.model.lease import Claim, Wish
from inturn.policy.settlement import Settlement
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.load import Load
from tests.concurrency.support import (
    ask,
    claim,
    enqueue,
    ids,
    job,
    jobs,
    quickly,
    sound,
    state,
)
from tests.postgres_server import PostgresServer

CUT_ONE = """
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and application_name = 'inturn'
order by random() limit 1
"""
CUT_ALL = CUT_ONE.replace("order by random() limit 1", "")


@pytest_asyncio.fixture
async def reaper(database: str) -> AsyncIterator[Any]:
    """A connection that cuts others."""
    connection: Any = await asyncpg.connect(database)
    yield connection
    await connection.close()


async def test_backends_are_killed_under_load_and_nothing_is_lost(
    store: PostgresStore, reaper: Any
) -> None:
    """(003-25)"""

    async def trouble() -> None:
        for _ in range(25):
            await asyncio.sleep(random.random() * 0.08)
            await reaper.execute(CUT_ONE)

    await nothing_is_lost(store, trouble())


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_the_server_stops_and_starts_under_load_and_nothing_is_lost(
    private_postgres: Callable[..., PostgresServer], mode: Literal["fast", "immediate"]
) -> None:
    """(003-25)"""
    server = await asyncio.to_thread(private_postgres)

    async def trouble() -> None:
        await asyncio.sleep(0.5)
        await asyncio.to_thread(server.stop, mode)
        await asyncio.sleep(0.2)
        await asyncio.to_thread(server.start)
        await asyncio.sleep(0.3)

    store = PostgresStore(server.url("postgres"))
    try:
        await store.migrate()
        await nothing_is_lost(store, trouble())
        await sound(store)
    finally:
        await store.close()


async def nothing_is_lost(store: PostgresStore, trouble: Coroutine[Any, Any, None]) -> None:
    load = Load(store)
    await load.run_while(trouble)
    await load.holds()
    stored = await ask(store, "select count(*) from inturn.job")
    distinct = await ask(store, "select count(distinct payload::text) from inturn.job")
    assert stored == distinct == len(load.accepted)


async def test_every_verb_finds_the_server_again_by_itself(
    store: PostgresStore, reaper: Any
) -> None:
    """All connections are cut while they rest in the pool, before each verb."""
    await enqueue(store, *jobs(3, "a"), *jobs(3))
    [held] = await claim(store, 1)
    verbs: list[Callable[[], Awaitable[object]]] = [
        lambda: store.enqueue([job("a"), job()]),
        lambda: store.enqueue(jobs(60, "b")),
        lambda: claim(store, 1),
        lambda: store.turn([], "default", jobs_max=1, worker="w1"),
        lambda: store.turn([Settlement.done(held)], "default", jobs_max=1, worker="w1"),
        lambda: store.extend([]),
        store.reclaim,
        store.queues,
        store.prune,
        store.check,
        lambda: store.wait(["default"], timeout_seconds=0.01),
        lambda: ask(store, "select 1"),  # nothing was done yet, so beginning may be repeated
    ]
    for verb in verbs:
        await reaper.execute(CUT_ALL)
        await quickly(verb())


class Interrupted(PostgresStore):
    """A store in which something happens before every claim that is no part of a turn."""

    interrupt: Callable[[], Awaitable[None]] | None = None

    async def _claim(self, wish: Wish) -> list[Claim]:
        if self.interrupt is not None:
            await self.interrupt()
        return await super()._claim(wish)


@pytest_asyncio.fixture
async def interrupted(store: PostgresStore, database: str) -> AsyncIterator[Interrupted]:
    made = Interrupted(database)
    await made.open()
    yield made
    await made.close()


async def held_alone(store: PostgresStore) -> list[Claim]:
    """Hold the only job there is: a turn that settles it finds nothing, and claims once more."""
    held = await enqueue(store, job("a"))
    claims = await claim(store)
    assert ids(claims) == held
    return claims


@pytest.mark.parametrize("error", [StoreUnavailable, StoreBusy, StoreFull])
async def test_a_turn_that_has_settled_gives_nothing_when_its_claim_cannot_be(
    interrupted: Interrupted, error: type[StoreError]
) -> None:
    claims = await held_alone(interrupted)

    async def fail() -> None:
        raise error("broken by a test")

    interrupted.interrupt = fail
    settlements = [Settlement.done(one) for one in claims]
    assert await interrupted.turn(settlements, "default", jobs_max=9, worker="w1") == []
    assert await state(interrupted, ids(claims)[0]) is JobState.DONE
    with pytest.raises(error):  # nothing was settled, so nothing is hidden
        await interrupted.turn([], "default", jobs_max=9, worker="w1")
    interrupted.interrupt = None
    [late] = await enqueue(interrupted, job("b"))
    assert ids(await interrupted.turn([], "default", jobs_max=9, worker="w1")) == [late]

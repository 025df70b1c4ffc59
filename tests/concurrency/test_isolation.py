"""Higher isolation levels: a producer whose snapshot is old fails, or its job is found.

Promise P15 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import asyncpg
import pytest

from inturn.model.lane import QueueSettings
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.producer import Opening
from tests.concurrency.support import (
    ask,
    claim,
    drain,
    enqueue,
    job,
)

higher_isolation = pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])

Meanwhile = Callable[[PostgresStore], Awaitable[object]]


async def drained(store: PostgresStore) -> None:
    """Finish all and leave every lane inactive; an open one is so a while after its last job."""
    await drain(store)
    await ask(
        store,
        "update inturn.lane set rank_at = rank_at - interval '1 minute' where key is null "
        "returning 1",
    )
    assert await claim(store) == []
    assert await ask(store, "select count(*) from inturn.lane where active") == 0


async def drained_and_pruned(store: PostgresStore) -> None:
    await store.configure("default", QueueSettings(keep_done_seconds=0))
    await drained(store)
    await store.prune()
    assert await ask(store, "select count(*) from inturn.lane") == 0


async def pruned_and_made_anew(store: PostgresStore) -> None:
    await drained_and_pruned(store)
    await enqueue(store, job("a"), job())


async def drained_and_filled_again(store: PostgresStore) -> None:
    await drained(store)
    await enqueue(store, job("a"), job())


async def claimed_and_not_settled(store: PostgresStore) -> None:
    assert await claim(store, lease_seconds=0.05)


async def paused(store: PostgresStore) -> None:
    await store.pause("default", key="a", by="ann")


async def head_cancelled(store: PostgresStore) -> None:
    for one in (await store.jobs()).rows:
        await store.cancel(one.job.id, by="ann")


MEANWHILE = [
    drained,
    drained_and_pruned,
    pruned_and_made_anew,
    drained_and_filled_again,
    claimed_and_not_settled,
    paused,
    head_cancelled,
]


@higher_isolation
@pytest.mark.parametrize("meanwhile", MEANWHILE)
async def test_a_keyed_job_behind_an_old_snapshot_is_found_or_refused(
    store: PostgresStore, producer: Opening, isolation: str, meanwhile: Meanwhile
) -> None:
    """The trap of the prototype: the snapshot says that the lane is active, and it is not."""
    await enqueue(store, job("a"), job())
    open_one = await producer(isolation)
    await meanwhile(store)
    made: list[UUID] = []
    try:
        made = await open_one.enqueue(job("a"))
        await open_one.commit()
    except asyncpg.SerializationError:  # SQLSTATE 40001
        made = []
        await open_one.rollback()
    if meanwhile is paused:
        await store.resume("default", key="a")
    await asyncio.sleep(0.06)
    await store.reclaim()
    assert set(made) <= set(await drain(store))


@higher_isolation
async def test_a_snapshot_older_than_the_queue_strands_nothing(
    store: PostgresStore, producer: Opening, isolation: str
) -> None:
    keyed, plain = await producer(isolation), await producer(isolation)
    await enqueue(store, job("a"))
    await drain(store)
    made: list[UUID] = []
    for open_one, wanted in ((keyed, job("a")), (plain, job())):
        try:
            one = await open_one.enqueue(wanted)
            await open_one.commit()
            made += one
        except asyncpg.SerializationError:
            await open_one.rollback()
    assert await drain(store) == made

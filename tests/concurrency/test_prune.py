"""Pruning meets producers, consumers and other prunes, and nothing is lost."""

from __future__ import annotations

import asyncio
from uuid import UUID

from inturn.model.lane import QueueSettings
from inturn.store.postgres.sql import called
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.producer import Opening
from tests.concurrency.support import (
    QUICK_SECONDS,
    ask,
    drain,
    enqueue,
    held_up,
    job,
    jobs,
    quickly,
)


async def test_idle_lanes_are_pruned_while_producers_use_their_keys(store: PostgresStore) -> None:
    await store.configure("default", QueueSettings(keep_done_seconds=0))
    accepted: list[UUID] = []
    ran: list[UUID] = []

    async def produce(number: int) -> None:
        for turn in range(25):
            accepted.extend(
                await enqueue(store, job(f"key {turn // 2}"), job(f"mine {number} {turn}"), job())
            )
            await asyncio.sleep(0.01)

    async def prune() -> int:
        lanes = 0
        while not producing.done():
            lanes += (await store.prune()).lanes
        return lanes

    producing = asyncio.gather(*(produce(number) for number in range(3)))
    pruning = asyncio.ensure_future(prune())
    while not producing.done():
        ran += await drain(store, jobs_max=5)
    await producing
    assert await pruning > 0
    ran += await drain(store)
    assert sorted(ran) == sorted(accepted)


async def test_a_lane_that_an_open_producer_uses_is_not_pruned(
    store: PostgresStore, producer: Opening
) -> None:
    await store.configure("default", QueueSettings(keep_done_seconds=0))
    await enqueue(store, job("a"), job("b"), job())
    await drain(store)
    open_one = await producer()
    made = await open_one.enqueue(job("a"), job())
    assert (await quickly(store.prune())).lanes == 1
    await open_one.commit()
    assert sorted(await drain(store)) == sorted(made)


async def test_a_producer_that_waits_for_a_prune_finds_a_new_lane(store: PostgresStore) -> None:
    await store.configure("default", QueueSettings(keep_done_seconds=0))
    await enqueue(store, job("a"), job("b"))
    await drain(store)
    async with store.transaction() as transaction:
        await transaction.execute(called("select * from inturn.prune_lanes(0, 100, 100, null)"))
        plain = await quickly(enqueue(store, job()))
        keyed = asyncio.ensure_future(enqueue(store, *jobs(2, "a"), job("b")))
        assert await held_up(keyed)
    made = plain + await quickly(keyed)
    assert sorted(await drain(store)) == sorted(made)


async def test_a_prune_waits_for_no_open_producer(store: PostgresStore, producer: Opening) -> None:
    """An expired dedupe key that is being used again is that producer's, not the prune's."""
    await enqueue(store, job("a", dedupe="mail", dedupe_seconds=0.001), job("b"))
    await drain(store)
    await asyncio.sleep(0.01)
    open_one = await producer()
    made = await open_one.enqueue(job("a", dedupe="mail"))
    pruning = asyncio.ensure_future(store.prune())
    waits = await held_up(pruning, QUICK_SECONDS)
    await open_one.commit()
    await quickly(pruning)
    assert await drain(store) == made
    assert await ask(store, "select count(*) from inturn.dedupe") == 1
    assert not waits

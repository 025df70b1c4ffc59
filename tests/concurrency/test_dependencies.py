"""A job enqueued ``after`` another while that one is being finished is released, always.

Promise P7 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from uuid import UUID

import asyncpg
import pytest

from inturn.model.job import JobState, NewJob
from inturn.model.lane import QueueSettings
from inturn.policy.settlement import Settlement
from inturn.store.postgres.sql import called
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.producer import ISOLATIONS, Opening
from tests.concurrency.support import (
    claim,
    done,
    drain,
    enqueue,
    ids,
    job,
    quickly,
    state,
)

every_isolation = pytest.mark.parametrize("isolation", ISOLATIONS)
keys = pytest.mark.parametrize("key", ["a", None], ids=["keyed", "open"])


class Undo(Exception):
    """Raised to leave a transaction without committing."""


def after(*others: UUID, key: str | None = None) -> NewJob:
    return job(key, after=frozenset(others), queue="later")


@every_isolation
@keys
async def test_what_it_waits_for_is_settled_before_the_commit(
    store: PostgresStore, producer: Opening, isolation: str, key: str | None
) -> None:
    [first] = await enqueue(store, job(key))
    open_one = await producer(isolation)
    [later] = await open_one.enqueue(after(first))
    assert await drain(store) == [first]
    assert await quickly(claim(store, queue="later")) == []
    await open_one.commit()
    assert await drain(store, "later") == [later]


@keys
async def test_a_settle_that_is_rolled_back_releases_nothing(
    store: PostgresStore, producer: Opening, key: str | None
) -> None:
    [first] = await enqueue(store, job(key))
    claims = await claim(store)
    open_one = await producer()
    [later] = await open_one.enqueue(after(first))
    with suppress(Undo):
        async with store.transaction() as transaction:
            await transaction.settle([Settlement.done(one) for one in claims], worker="w1")
            await open_one.commit()
            assert await quickly(claim(store, queue="later")) == []
            raise Undo
    assert await quickly(claim(store, queue="later")) == []
    assert await state(store, later) is JobState.BLOCKED
    await done(store, claims)
    assert await drain(store, "later") == [later]


async def test_it_waits_for_several_that_end_in_turn(
    store: PostgresStore, producer: Opening
) -> None:
    """Whichever ends last, before the commit or after it. (000-01)"""
    first = await enqueue(store, job("a"), job("b"), job())
    open_one = await producer()
    [later] = await open_one.enqueue(after(*first))
    claims = await claim(store)
    await done(store, claims[:1])
    await open_one.commit()
    await done(store, claims[1:2])
    assert await quickly(claim(store, queue="later")) == []
    await done(store, claims[2:])
    assert await drain(store, "later") == [later]


async def test_two_settles_at_once_release_what_waited_for_both(store: PostgresStore) -> None:
    for _ in range(10):
        first = await enqueue(store, job("a"), job("b"))
        [later] = await enqueue(store, after(*first))
        one, other = await claim(store)
        await asyncio.gather(done(store, [one]), done(store, [other]))
        assert await drain(store, "later") == [later]


async def test_what_it_waits_for_is_done_and_pruned_before_the_commit(
    store: PostgresStore, producer: Opening
) -> None:
    """What was pruned releases nothing; the job is a dead letter, and says why. (000-06)"""
    await store.configure("default", QueueSettings(keep_done_seconds=0))
    [first] = await enqueue(store, job("a"))
    open_one = await producer()
    [later] = await open_one.enqueue(after(first))
    await drain(store)
    await store.prune()
    await open_one.commit()
    assert await drain(store, "later") == []
    view = await store.job(later)
    assert view.state is JobState.DEAD
    assert "pruned" in (view.reason or "")


async def test_what_it_waits_for_is_cancelled_before_the_commit(
    store: PostgresStore, producer: Opening
) -> None:
    [first] = await enqueue(store, job("a"))
    open_one = await producer()
    [later] = await open_one.enqueue(after(first))
    assert await quickly(store.cancel(first, by="ann")) is JobState.CANCELLED
    await open_one.commit()
    assert await drain(store, "later") == []
    assert await state(store, later) is JobState.DEAD


async def test_a_settle_that_stays_open_holds_up_only_what_waits_for_its_jobs(
    store: PostgresStore, producer: Opening
) -> None:
    """Be they more than are looked at together. (000-01)"""
    first, second = await enqueue(store, job("a"), job("b"))
    [one], [other] = await claim(store, 1), await claim(store, 1)
    async with store.transaction() as transaction:
        await transaction.settle([Settlement.done(one)], worker="w1")
        await enqueue(store, *(after(first) for _ in range(1_500)))
        open_one = await producer()
        [later] = await open_one.enqueue(after(second))
        await done(store, [other])
        await open_one.commit()
        assert ids(await quickly(claim(store, queue="later"))) == [later]


async def test_a_leased_job_that_somebody_has_holds_up_no_other_wait(
    store: PostgresStore, producer: Opening
) -> None:
    """One job waits for three, of which one is being settled."""
    first = await enqueue(store, job("a"), job("b"), job("c"))
    claims = [(await claim(store, 1))[0] for _ in first]
    await enqueue(store, after(*first))
    someone = await producer()
    await someone.connection.execute(
        "select from inturn.lease where token = $1 for update", claims[1].lease.token
    )
    async with store.transaction() as transaction:
        await transaction.execute(called("select inturn.recheck(1000, clock_timestamp())"))
        fresh = await transaction.execute("select on_job from inturn.waits where fresh")
    assert fresh == [(first[1],)]


async def test_settles_producers_and_claims_race_and_nothing_is_stranded(
    store: PostgresStore, producer: Opening
) -> None:
    """Chains built while their first links are being finished."""
    waiting: list[UUID] = []

    async def produce(number: int) -> None:
        for turn in range(10):
            [first] = await enqueue(store, job(f"key {number}" if turn % 2 else None))
            open_one = await producer(ISOLATIONS[turn % 3])
            try:
                made = await open_one.enqueue(after(first, key="b" if turn % 4 else None))
                await asyncio.sleep(0.003 * number)
                await open_one.commit()
                waiting.extend(made)
            except asyncpg.SerializationError:
                await open_one.rollback()
            await open_one.close()

    ran: list[UUID] = []
    producing = asyncio.gather(*(produce(number) for number in range(4)))
    while not producing.done():
        await drain(store, jobs_max=3)
        ran += await drain(store, "later", jobs_max=3)
        await asyncio.sleep(0)
    await producing
    await drain(store)
    ran += await drain(store, "later")
    assert sorted(ran) == sorted(waiting)

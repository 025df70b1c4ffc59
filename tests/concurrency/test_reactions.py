"""A reaction submitted while what it reacts to is dying, or being finished, runs once or never.

Promise P7 of ARCHITECTURE.md.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from inturn.model.job import JobState, NewJob
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.producer import ISOLATIONS, Opening
from tests.concurrency.support import claim, drain, enqueue, job, quickly, state

every_isolation = pytest.mark.parametrize("isolation", ISOLATIONS)
keys = pytest.mark.parametrize("key", ["a", None], ids=["keyed", "open"])


def reaction(*others: UUID) -> NewJob:
    return NewJob(kind="react", queue="later", after_failed=frozenset(others))


async def buried(store: PostgresStore) -> list[Settlement]:
    """Claim the first job, and return what buries it."""
    [claimed] = await claim(store)
    return [Settlement(claimed.lease, [Outcome(claimed.jobs[0], Bury("hopeless"))])]


@every_isolation
@keys
async def test_what_it_reacts_to_dies_before_the_commit(
    store: PostgresStore, producer: Opening, isolation: str, key: str | None
) -> None:
    """(B-02)"""
    [first] = await enqueue(store, job(key))
    open_one = await producer(isolation)
    [reacts] = await open_one.enqueue(reaction(first))
    await store.settle(await buried(store), worker="w1")
    assert await quickly(claim(store, queue="later")) == []
    await open_one.commit()
    assert await drain(store, "later") == [reacts]
    assert await store.check() == []


@every_isolation
@keys
async def test_what_it_reacts_to_is_done_before_the_commit(
    store: PostgresStore, producer: Opening, isolation: str, key: str | None
) -> None:
    [first] = await enqueue(store, job(key))
    open_one = await producer(isolation)
    [reacts] = await open_one.enqueue(reaction(first))
    assert await drain(store) == [first]
    await open_one.commit()
    assert await drain(store, "later") == []
    assert await state(store, reacts) is JobState.CANCELLED


@every_isolation
async def test_what_it_reacts_to_is_cancelled_before_the_commit(
    store: PostgresStore, producer: Opening, isolation: str
) -> None:
    """(B-02)"""
    [first] = await enqueue(store, job("a"))
    open_one = await producer(isolation)
    [reacts] = await open_one.enqueue(reaction(first))
    assert await quickly(store.cancel(first, by="ann")) is JobState.CANCELLED
    await open_one.commit()
    assert await drain(store, "later") == [reacts]


@keys
async def test_the_producer_commits_while_a_transaction_that_buries_is_open(
    store: PostgresStore, producer: Opening, key: str | None
) -> None:
    """(B-02)"""
    [first] = await enqueue(store, job(key))
    burial = await buried(store)
    open_one = await producer()
    async with store.transaction() as transaction:
        [early] = await enqueue(store, reaction(first))
        [late] = await open_one.enqueue(reaction(first))
        await transaction.settle(burial, worker="w1")
        await open_one.commit()
        assert await quickly(claim(store, queue="later")) == []
    assert sorted(await drain(store, "later")) == sorted([early, late])
    assert await store.check() == []


async def test_two_deaths_at_one_time_let_a_reaction_in_once(store: PostgresStore) -> None:
    """Neither waits for the other. (B-02)"""
    firsts = await enqueue(store, job("a"), job("b"))
    [reacts] = await enqueue(store, reaction(*firsts))
    one, other = (
        [Settlement(claimed.lease, [Outcome(claimed.jobs[0], Bury("hopeless"))])]
        for claimed in [*await claim(store, jobs_max=1), *await claim(store, jobs_max=1)]
    )
    async with store.transaction() as transaction:
        await transaction.settle(one, worker="w1")
        await quickly(store.settle(other, worker="w1"))
        assert await quickly(drain(store, "later")) == [reacts]
    assert await drain(store, "later") == []
    assert await store.check() == []

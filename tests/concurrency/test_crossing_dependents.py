"""Verbs that meet on jobs that wait for others: none waits for the other for ever."""

from __future__ import annotations

import asyncio

import pytest

from inturn.model.errors import StoreBusy
from inturn.model.job import JobState
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.support import (
    claim,
    done,
    drain,
    enqueue,
    held_up,
    ids,
    job,
    quickly,
    state,
)


@pytest.mark.parametrize("ends", ["done", "buried"])
async def test_a_turn_keeps_no_lane_from_who_holds_what_waits_for_its_jobs(
    store: PostgresStore, ends: str
) -> None:
    """The turn puts a lane to sleep, for which it has the tail, and lets go what waits for a job
    of that turn, which a transaction has that settled another; then that one enqueues.
    """
    first, second = await enqueue(store, job("a"), job("b"))
    [drained] = await enqueue(store, job("c"))
    awaited = drained if ends == "done" else second
    [waiting] = await enqueue(store, job("d", after=frozenset({first, awaited})))
    await store.reclaim()
    one, others = await claim(store, 1), await claim(store, 2)
    assert [ids(one), ids(others)] == [[first], [second, drained]]
    settlements = [Settlement.done(other) for other in others]
    if ends == "buried":
        settlements[1] = Settlement(others[1].lease, [Outcome(others[1].jobs[0], Bury("no"))])
    async with store.transaction() as transaction:
        await transaction.settle([Settlement.done(one[0])], worker="w1")
        turning = asyncio.ensure_future(store.turn(settlements, "default", jobs_max=9, worker="w2"))
        assert await held_up(turning)
        [ticket] = await quickly(transaction.enqueue([job("c")]))
    claims = await quickly(turning)
    await done(store, claims)
    assert {*ids(claims), *await drain(store)} == {waiting, ticket.id}


async def test_a_cancel_that_waits_for_a_settle_keeps_no_lane_from_others(
    store: PostgresStore,
) -> None:
    """A turn has the tail of one lane and comes to another, in which the cancelled job stands; a
    transaction has what waits for that job, and enqueues into the first.
    """
    [first] = await enqueue(store, job("a"))
    [drained] = await enqueue(store, job("b"))
    [second, unwanted] = await enqueue(store, job("c"), job("c"))
    [waiting] = await enqueue(store, job("d", after=frozenset({first, unwanted})))
    await store.reclaim()
    [one], others = await claim(store, 1), await claim(store, 2)
    assert ids(others) == [drained, second]
    async with store.transaction() as transaction:
        await transaction.settle([Settlement.done(one)], worker="w1")
        cancelling = asyncio.ensure_future(store.cancel(unwanted, by="ann"))
        assert await held_up(cancelling)
        settlements = [Settlement.done(other) for other in others]
        turning = store.turn(settlements, "elsewhere", jobs_max=9, worker="w2")
        turned = asyncio.ensure_future(turning)
        await asyncio.sleep(0.2)
        [ticket] = await quickly(transaction.enqueue([job("b")]))
    assert await quickly(turned) == []
    assert await quickly(cancelling) is JobState.CANCELLED
    assert await drain(store) == [ticket.id]
    assert await state(store, waiting) is JobState.DEAD


async def test_a_cancel_gives_up_while_what_waits_for_its_job_stays_in_other_hands(
    store: PostgresStore, database: str
) -> None:
    first, unwanted = await enqueue(store, job("a"), job("b"))
    [waiting] = await enqueue(store, job("c", after=frozenset({first, unwanted})))
    await store.reclaim()
    impatient = PostgresStore(database, patience_seconds=0.3)
    await impatient.open()
    try:
        async with store.transaction() as transaction:
            await transaction.settle([Settlement.done(*await claim(store, 1))], worker="w1")
            with pytest.raises(StoreBusy, match=f"what waits for job {unwanted} is in the hands"):
                await quickly(impatient.cancel(unwanted, by="ann"))
            assert await state(store, unwanted) is JobState.WAITING
        assert await impatient.cancel(unwanted, by="ann") is JobState.CANCELLED
    finally:
        await impatient.close()
    assert await state(store, waiting) is JobState.DEAD

"""Verbs that meet on the same rows from both sides: none waits for the other for ever."""

from __future__ import annotations

import asyncio
import time

from inturn.model.job import JobState
from inturn.model.lane import QueueSettings
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.producer import Opening
from tests.concurrency.support import claim, done, drain, enqueue, ids, job, jobs, quickly


async def test_two_transactions_settle_in_one_lane_and_enqueue_into_the_others(
    store: PostgresStore,
) -> None:
    await enqueue(store, job("a"), job("b"))
    [one], [other] = await claim(store, 1), await claim(store, 1)
    async with store.transaction() as t1, store.transaction() as t2:
        await t1.settle([Settlement.done(one)], worker="w")
        await t2.settle([Settlement.done(other)], worker="w")
        await quickly(t1.enqueue([job(other.lease.key)]))
        await quickly(t2.enqueue([job(one.lease.key)]))
    assert len(await drain(store)) == 2
    assert await store.check() == []


async def test_a_dead_letter_is_retried_while_its_lane_is_appended_to(
    store: PostgresStore, producer: Opening
) -> None:
    await enqueue(store, job("a"))
    await enqueue(store, job("b"))
    [first] = await claim(store, 1)
    [dead] = first.jobs
    await store.settle([Settlement(first.lease, [Outcome(dead, Bury("no"))])], worker="w")
    open_one = await producer()
    await open_one.enqueue(job("b"))
    appending = asyncio.create_task(store.enqueue([job("a"), job("b")]))
    await asyncio.sleep(0.2)
    retrying = asyncio.create_task(store.dead_retry([dead.id]))
    await asyncio.sleep(0.2)
    await open_one.commit()
    await quickly(appending)
    assert await quickly(retrying) == [dead.id]
    assert dead.id in await drain(store)


async def test_dead_letters_are_dropped_while_their_lanes_are_appended_to(
    store: PostgresStore, producer: Opening
) -> None:
    """Whoever takes several tails takes them in the order of lanes, and not of jobs."""
    await enqueue(store, job("a"), job("b"))
    dead = await enqueue(store, job("b"), job("a"))
    for _ in range(4):
        [one] = await claim(store, 1)
        verdict = Bury("no") if one.jobs[0].id in dead else Done()
        await store.settle([Settlement(one.lease, [Outcome(one.jobs[0], verdict)])], worker="w")
    open_one = await producer()
    await open_one.enqueue(job("b"))
    dropping = asyncio.create_task(store.dead_drop(dead, by="ann"))
    await asyncio.sleep(0.2)
    appending = asyncio.create_task(store.enqueue([job("a"), job("b")]))
    await asyncio.sleep(0.2)
    await open_one.commit()
    await quickly(appending)
    assert await quickly(dropping) == dead


async def test_a_queue_is_configured_while_it_is_worked_on(store: PostgresStore) -> None:
    await enqueue(store, *(job(f"key {n % 40}") for n in range(2_000)))
    ends_at = time.monotonic() + 2

    async def work() -> None:
        while time.monotonic() < ends_at and (claims := await claim(store, 5)):
            await done(store, claims)

    async def configure() -> None:
        while time.monotonic() < ends_at:
            for seconds in (100.0, 200.0):
                await store.configure("default", QueueSettings(aging_seconds=seconds))

    await asyncio.gather(work(), work(), work(), configure())
    assert await store.check() == []


async def test_leases_are_extended_while_some_of_them_are_settled_in_part(
    store: PostgresStore,
) -> None:
    await enqueue(store, *jobs(600))
    ends_at = time.monotonic() + 2
    while time.monotonic() < ends_at:
        claims = [one for _ in range(3) for one in await claim(store, 4)]
        parts = [
            Settlement(one.lease, [Outcome(held, Settlement.done(one).outcomes[0].verdict)])
            for one in claims
            for held in one.jobs[: 1 if one is claims[0] else None]
        ]
        await asyncio.gather(
            store.settle(_by_lease(parts), worker="w"),
            *(store.extend([one.lease for one in claims]) for _ in range(3)),
        )
        if claims:
            left = [Outcome(held, parts[0].outcomes[0].verdict) for held in claims[0].jobs[1:]]
            await store.settle([Settlement(claims[0].lease, left)] if left else [], worker="w")
        await enqueue(store, *jobs(12))
    assert await store.check() == []


def _by_lease(parts: list[Settlement]) -> list[Settlement]:
    by_token: dict[int, Settlement] = {}
    for part in parts:
        before = by_token.get(part.lease.token)
        outcomes = [*(before.outcomes if before else ()), *part.outcomes]
        by_token[part.lease.token] = Settlement(part.lease, outcomes)
    return list(by_token.values())


async def test_a_job_that_waits_for_one_being_cancelled_is_not_left_blocked(
    store: PostgresStore, producer: Opening
) -> None:
    await enqueue(store, job("a"))
    [awaited] = await enqueue(store, job("a"))
    async with store.transaction() as t:
        await t.execute("select inturn.cancel($1, 'me', null)", awaited)
        [waiting] = await enqueue(store, job("b", after=frozenset({awaited})))
        await quickly(store.reclaim())
    for _ in range(2):
        await store.reclaim()
    assert (await store.job(waiting)).state is JobState.DEAD
    assert ids(await claim(store)) != []

"""Claim: a lease on the first jobs in line, to one worker, in one transaction.

Promise P1 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.store.store import Store
from tests.contract.support import (
    broken,
    claim,
    claim_one,
    done,
    enqueue,
    ids,
    job,
    jobs,
    queue_status,
    rows_of,
    run_all,
    settle,
    states,
)


async def test_a_claim_of_a_keyed_job(store: Store, clock: ManualClock) -> None:
    [ticket] = await store.enqueue([job(key="a", queue="q")])
    [claimed] = await claim(store, queue="q", worker="me", lease_seconds=12.5)
    lease, [leased] = claimed.lease, claimed.jobs
    assert (lease.queue, lease.lane, lease.key) == ("q", ticket.lane, "a")
    assert (lease.first, lease.last, lease.alone) == (1, 1, False)
    assert lease.until == clock.now() + timedelta(seconds=12.5)
    assert (leased.id, leased.position, leased.attempt) == (ticket.id, 1, 1)
    view = await store.job(ticket.id)
    assert (view.state, view.worker, view.attempt) == (JobState.RUNNING, "me", 1)
    assert view.leased_until == lease.until


async def test_a_claim_of_an_unkeyed_job(store: Store, clock: ManualClock) -> None:
    [ticket] = await store.enqueue([job()])
    [claimed] = await claim(store, worker="me")
    lease, [leased] = claimed.lease, claimed.jobs
    assert (lease.lane, lease.key, lease.alone) == (ticket.lane, None, False)
    assert lease.first <= leased.position <= lease.last
    assert (leased.id, leased.attempt) == (ticket.id, 1)
    view = await store.job(ticket.id)
    assert (view.state, view.worker) == (JobState.RUNNING, "me")
    assert view.leased_until == lease.until


async def test_a_keyed_lane_gives_its_head_and_the_jobs_right_behind_it(store: Store) -> None:
    made = await enqueue(store, *jobs(5, key="a"))
    [claimed] = await claim(store, 3)
    assert ids([claimed]) == made[:3]
    assert [leased.position for leased in claimed.jobs] == [1, 2, 3]
    assert (claimed.lease.first, claimed.lease.last) == (1, 3)
    assert [leased.attempt for leased in claimed.jobs] == [1, 1, 1]


async def test_a_keyed_lane_is_in_one_workers_hands_at_a_time(
    store: Store, other_store: Store
) -> None:
    """(003-04)"""
    made = await enqueue(store, *jobs(4, key="a"))
    first = await claim(store, 2)
    assert ids(first) == made[:2]
    assert await claim(other_store, worker="w2") == []
    await settle(store, done(first))
    assert ids(await claim(other_store, worker="w2")) == made[2:]
    assert await claim(store) == []


async def test_two_workers_never_hold_the_same_job(store: Store, other_store: Store) -> None:
    """(003-03)"""
    batch = [job(key=f"key {number % 7}" if number % 3 else None) for number in range(120)]
    await store.enqueue(batch)
    held: list[UUID] = []

    async def drain(mine: Store, worker: str) -> None:
        while claims := await claim(mine, 4, worker=worker):
            held.extend(ids(claims))
            await asyncio.sleep(0)
            await settle(mine, done(claims))

    workers = [(store, "w1"), (other_store, "w2"), (store, "w3"), (other_store, "w4")]
    while (await queue_status(store)).waiting:
        await asyncio.gather(*(drain(mine, worker) for mine, worker in workers))
    assert len(held) == len(batch)
    assert set(held) == {one.id for one in batch}


async def test_an_open_lane_is_leased_to_many_at_once(store: Store, other_store: Store) -> None:
    made = await enqueue(store, *jobs(6))
    first, second = await claim(store, 2), await claim(other_store, 2, worker="w2")
    third = await claim(store, 2, worker="w3")
    assert sorted(ids(first + second + third)) == sorted(made)
    await settle(store, done(second))
    assert await states(store, ids(first)) == [JobState.RUNNING] * 2
    assert await states(store, ids(second)) == [JobState.DONE] * 2
    assert await states(store, ids(third)) == [JobState.RUNNING] * 2


async def test_the_leases_of_one_claim_share_a_token_and_tokens_go_up(store: Store) -> None:
    await enqueue(store, job(key="a"), job(key="b"), job())
    before = 0
    for _ in range(3):
        claims = await claim(store)
        assert len(claims) == 3
        [token] = {one.lease.token for one in claims}
        assert token > before
        before = token
        await settle(store, done(claims))
        await enqueue(store, job(key="a"), job(key="b"), job())


async def test_the_lane_that_waited_longest_is_first(store: Store, clock: ManualClock) -> None:
    await enqueue(store, job(key="b"))
    clock.advance(1)
    await enqueue(store, job(key="a"))
    clock.advance(1)
    await enqueue(store, job())
    clock.advance(1)
    await enqueue(store, job(key="c"), job(key="b"))
    keys = [(await claim_one(store)).lease.key for _ in range(4)]
    assert keys == ["b", "a", None, "c"]


async def test_a_lanes_age_is_that_of_its_head(store: Store, clock: ManualClock) -> None:
    """A lane that was first once goes behind the lanes whose heads are older than its next."""
    await enqueue(store, job(key="a"))
    clock.advance(1)
    await enqueue(store, job(key="b"))
    clock.advance(1)
    await enqueue(store, job(key="a"))
    first = await claim_one(store)
    await settle(store, done([first]))
    second = await claim_one(store)
    assert (first.lease.key, second.lease.key) == ("a", "b")


async def test_only_lanes_whose_head_is_of_a_kind_are_claimed(store: Store) -> None:
    mail, push, plain = await enqueue(
        store, job("mail", key="a"), job("push", key="b"), job("mail")
    )
    assert set(ids(await claim(store, kinds=["mail"]))) == {mail, plain}
    assert await claim(store, kinds=["mail"]) == []
    assert ids(await claim(store, kinds=["mail", "push"])) == [push]


async def test_a_job_behind_the_head_may_be_of_another_kind(store: Store) -> None:
    made = await enqueue(store, job("mail", key="a"), job("push", key="a"))
    [claimed] = await claim(store, kinds=["mail"])
    assert ids([claimed]) == made


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
@pytest.mark.parametrize(("table", "event"), [("lease", "insert"), ("lane", "update")])
async def test_a_claim_that_breaks_off_leaves_the_jobs_waiting(
    store: Store, key: str | None, table: str, event: str
) -> None:
    """(001-02)"""
    made = await enqueue(store, *jobs(3, key=key))
    async with broken(store, table, event):
        with pytest.raises(Exception, match="broken by a test"):
            await claim(store, 2)
    assert await states(store, made) == [JobState.WAITING] * 3
    assert await rows_of(store, "lease", "run") == {"lease": 0, "run": 0}
    claims = await claim(store)
    assert ids(claims) == made
    assert [leased.attempt for one in claims for leased in one.jobs] == [1, 1, 1]


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_a_claim_that_is_cancelled_is_whole_or_nothing(store: Store, key: str | None) -> None:
    """(001-02)"""
    made = await enqueue(store, *jobs(4, key=key))
    for turns in range(0, 12, 3):
        claiming = asyncio.ensure_future(claim(store, 2))
        for _ in range(turns):
            await asyncio.sleep(0)
        claiming.cancel()
        await asyncio.gather(claiming, return_exceptions=True)
        assert await store.check() == []
        # One read of all: the claim may still be committed behind the caller's back, but whole.
        found = [(view.job.id, view.state) for view in (await store.jobs()).rows]
        assert [one for one, _ in found] == made[::-1]
        running = [where for _, where in found].count(JobState.RUNNING)
        assert running in (0, 2, 4)
        assert [where for _, where in found].count(JobState.WAITING) == 4 - running


async def test_a_fixed_key_for_what_has_none_keeps_the_order(store: Store) -> None:
    """(003-12)"""
    made = []
    for _ in range(5):
        made += await enqueue(store, *jobs(3, key="default"))
    assert await run_all(store, jobs_max=4) == made


async def test_unkeyed_jobs_that_one_producer_sends_one_after_another_come_oldest_first(
    store: Store, clock: ManualClock
) -> None:
    """Not a promise, only what a quiet queue does: whose order matters is given a key (003-12).

    On PostgreSQL a long line without keys is shared over several lanes, and producers that meet
    take another lane each.
    """
    made = []
    for _ in range(5):
        made += await enqueue(store, *jobs(3))
        clock.advance(0.01)
    assert await run_all(store, jobs_max=4) == made

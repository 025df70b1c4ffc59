"""Extend: a worker that lives keeps its leases, and learns which are lost.

Promise P3 of ARCHITECTURE.md.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.store.store import Store
from tests.contract.support import (
    claim,
    claim_one,
    done,
    enqueue,
    job,
    settle,
    state,
)

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])


@KEYS
async def test_an_extended_lease_is_not_reclaimed(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    [made] = await enqueue(store, job(key=key))
    claimed = await claim_one(store, lease_seconds=10)
    for _ in range(5):
        clock.advance(9)
        assert await store.extend([claimed.lease], lease_seconds=10) == []
        assert (await store.reclaim()).leases == 0
    assert (await store.job(made)).leased_until == clock.now() + timedelta(seconds=10)
    await settle(store, done([claimed]))
    assert await state(store, made) is JobState.DONE


@KEYS
async def test_a_reclaimed_lease_is_lost(
    store: Store, other_store: Store, clock: ManualClock, key: str | None
) -> None:
    await enqueue(store, job(key=key))
    claimed = await claim_one(store)
    clock.advance(31)
    await other_store.reclaim()
    assert await store.extend([claimed.lease]) == [claimed.lease]
    fresh = await claim_one(other_store)
    assert await store.extend([claimed.lease, fresh.lease]) == [claimed.lease]
    # Asking for the lost one has not prolonged the new one's predecessor into life.
    clock.advance(31)
    assert (await store.reclaim()).leases == 1


@KEYS
async def test_a_lease_that_ran_out_but_was_not_reclaimed_is_extended(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    await enqueue(store, job(key=key))
    claimed = await claim_one(store)
    clock.advance(100)
    assert await store.extend([claimed.lease]) == []
    assert (await store.reclaim()).leases == 0
    await settle(store, done([claimed]))


async def test_of_one_claims_leases_only_the_settled_lane_is_lost(store: Store) -> None:
    await enqueue(store, job(key="a"), job(key="b"), job(key="c"))
    first, second, third = await claim(store)
    await settle(store, done([second]))
    leases = [first.lease, second.lease, third.lease]
    assert await store.extend(leases) == [second.lease]


async def test_a_run_that_is_settled_is_lost_although_another_lease_has_its_lane(
    store: Store,
) -> None:
    """One claim's token stands for runs of several open lanes, and each lane has other runs."""
    await enqueue(store, job("one"), job("two"))
    settled, kept = sorted(await claim(store), key=lambda claimed: claimed.jobs[0].kind)
    assert settled.lease.token == kept.lease.token
    await enqueue(store, job("one"))
    other = await claim_one(store)
    assert other.lease.lane == settled.lease.lane
    await settle(store, done([settled]))
    leases = [settled.lease, kept.lease, other.lease]
    assert await store.extend(leases) == [settled.lease]

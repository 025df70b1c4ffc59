"""Priority: higher first, then arrival, and the lowest is late and never starved.

Promise P12 of ARCHITECTURE.md.
"""

from __future__ import annotations

import pytest

from inturn.model.clock import ManualClock
from inturn.model.lane import QueueSettings
from inturn.store.store import Store
from tests.contract.support import (
    claim,
    claim_one,
    done,
    enqueue,
    fail,
    ids,
    job,
    jobs,
    settle,
)

KEYS = pytest.mark.parametrize("keyed", [False, True], ids=["unkeyed", "keyed"])


@KEYS
async def test_one_at_a_time_the_order_is_the_same(
    store: Store, clock: ManualClock, keyed: bool
) -> None:
    """(001-22)"""
    made = []
    for priority in (-1, 2, 0, 1):
        key = f"{priority}" if keyed else None
        made += await enqueue(store, job(key=key, priority=priority))
        clock.advance(0.001)
    ran = [ids([await claim_one(store)])[0] for _ in range(4)]
    assert ran == [made[1], made[3], made[2], made[0]]


@KEYS
async def test_waiting_outweighs_priority_in_time(
    store: Store, clock: ManualClock, keyed: bool
) -> None:
    """(001-22)"""
    await store.configure("default", QueueSettings(aging_seconds=10))
    low, high = ("low", "high") if keyed else (None, None)
    for waited, first in ((29, high), (31, low)):
        [one] = await enqueue(store, job("low", key=low, priority=-1))
        clock.advance(waited)
        [two] = await enqueue(store, job("high", key=high, priority=2))
        ran = [await claim_one(store), await claim_one(store)]
        assert ids(ran) == ([two, one] if waited < 30 else [one, two])
        assert ran[0].lease.key == first
        await settle(store, done(ran))


@KEYS
async def test_another_ageing_moves_what_waits_already(
    store: Store, clock: ManualClock, keyed: bool
) -> None:
    """(001-22)"""
    low, high = ("low", "high") if keyed else (None, None)
    for aging_seconds, is_low_first in ((300, False), (10, True), (300, False)):
        [one] = await enqueue(store, job("low", key=low))
        clock.advance(20)
        [two] = await enqueue(store, job("high", key=high, priority=1))
        await store.configure("default", QueueSettings(aging_seconds=aging_seconds))
        ran = [await claim_one(store), await claim_one(store)]
        assert ids(ran) == ([one, two] if is_low_first else [two, one])
        await settle(store, done(ran))


async def test_the_lowest_priority_is_not_starved_for_ever(
    store: Store, clock: ManualClock
) -> None:
    """Two high jobs arrive for every one that is run, and still the low one has its turn.

    It is worth 20 seconds less than a high one, so it runs before those that came 20 seconds
    later; and these are 40 turns away (a few more where an open lane's rank lags by a second).
    (001-22)
    """
    await store.configure("default", QueueSettings(aging_seconds=1))
    [low] = await enqueue(store, job(priority=-10))
    for second in range(100):
        await enqueue(store, *jobs(2, priority=10))
        claimed = await claim_one(store)
        await settle(store, done([claimed]))
        if ids([claimed]) == [low]:
            assert 35 < second < 50
            return
        clock.advance(1)
    pytest.fail("the low job has waited for ever")


async def test_priority_counts_across_lanes_and_never_within_one(store: Store) -> None:
    """(003-13)"""
    a = await enqueue(store, job(key="a"), job(key="a", priority=9), job(key="a", priority=3))
    b = await enqueue(store, job(key="b", priority=1), job(key="b", priority=-9))
    claims = await claim(store)
    assert [one.lease.key for one in claims] == ["b", "a"]
    assert ids(claims) == [*b, *a]


async def test_a_lanes_priority_is_that_of_its_head_as_it_moves_on(store: Store) -> None:
    """(003-13)"""
    a = await enqueue(store, job(key="a", priority=5), job(key="a", priority=-5))
    b = await enqueue(store, job(key="b"), job(key="b", priority=9))
    ran = []
    for _ in range(4):
        claimed = await claim_one(store)
        ran += ids([claimed])
        await settle(store, done([claimed]))
    assert ran == [a[0], b[0], b[1], a[1]]


async def test_a_due_retry_takes_its_turn_among_the_lanes(store: Store, clock: ManualClock) -> None:
    [again] = await enqueue(store, job(priority=1))
    await settle(store, fail(await claim_one(store), delay=10))
    [older] = await enqueue(store, job(key="a"))
    [urgent] = await enqueue(store, job(key="b", priority=2))
    clock.advance(10)
    assert [ids([await claim_one(store)])[0] for _ in range(3)] == [urgent, again, older]

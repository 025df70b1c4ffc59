"""Settle: what became of leased jobs, fenced by the lease and written whole.

Promise P3 of ARCHITECTURE.md.
"""

from __future__ import annotations

import msgspec
import pytest

from inturn.model.clock import ManualClock
from inturn.model.errors import LeaseLost, OutOfOrder
from inturn.model.job import JobState
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Release, Retry, Verdict
from inturn.store.store import Store
from tests.contract.support import (
    EVERY_VERDICT,
    attempts,
    broken,
    claim,
    claim_one,
    done,
    enqueue,
    fail,
    ids,
    job,
    jobs,
    release,
    rows_of,
    run_all,
    settle,
    state,
    states,
    stored,
    verdicts,
)

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])


@KEYS
async def test_what_a_settlement_leaves_out_stays_leased(store: Store, key: str | None) -> None:
    await enqueue(store, *jobs(3, key=key))
    [claimed] = await claim(store)
    mine = ids([claimed])
    await settle(store, [verdicts(claimed, Done())])
    assert await states(store, mine) == [JobState.DONE, JobState.RUNNING, JobState.RUNNING]
    rest = [Outcome(leased, Done()) for leased in claimed.jobs[1:]]
    await settle(store, [Settlement(claimed.lease, rest)])
    assert await states(store, mine) == [JobState.DONE] * 3


async def test_an_open_lanes_jobs_are_settled_in_any_order(store: Store) -> None:
    await enqueue(store, *jobs(5))
    [claimed] = await claim(store)
    for index in (3, 0, 4, 2, 1):
        leased = claimed.jobs[index]
        await settle(store, [Settlement(claimed.lease, [Outcome(leased, Done())])])
        assert await state(store, leased.id) is JobState.DONE
        assert await store.check() == []
    assert await rows_of(store, "lease", "run") == {"lease": 0, "run": 0}


async def test_a_keyed_lanes_jobs_are_settled_from_the_head_on(store: Store) -> None:
    made = await enqueue(store, *jobs(3, key="a"))
    [claimed] = await claim(store)
    ahead = Settlement(claimed.lease, [Outcome(claimed.jobs[1], Done())])
    with pytest.raises(LeaseLost):
        await settle(store, [ahead])
    holed = Settlement(
        claimed.lease, [Outcome(claimed.jobs[0], Done()), Outcome(claimed.jobs[2], Done())]
    )
    with pytest.raises(LeaseLost):
        await settle(store, [holed])
    assert await states(store, made) == [JobState.RUNNING] * 3


@KEYS
@pytest.mark.parametrize("verdict", EVERY_VERDICT, ids=lambda one: type(one).__name__)
async def test_a_worker_that_lost_its_lease_can_say_nothing(
    store: Store, other_store: Store, clock: ManualClock, key: str | None, verdict: Verdict
) -> None:
    """(003-09)"""
    [made] = await enqueue(store, job(key=key))
    stale = await claim_one(store, worker="slow")
    clock.advance(31)
    await other_store.reclaim()
    with pytest.raises(LeaseLost) as lost:
        await store.settle([verdicts(stale, verdict)], worker="slow")
    assert lost.value.tokens == (stale.lease.token,)
    fresh = await claim_one(other_store, worker="new")
    before = await store.job(made)
    with pytest.raises(LeaseLost):
        await store.settle([verdicts(stale, verdict)], worker="slow")
    assert await store.job(made) == before
    assert before.worker == "new"
    await other_store.settle(done([fresh]), worker="new")
    assert await state(store, made) is JobState.DONE


@pytest.mark.parametrize("verdict", EVERY_VERDICT, ids=lambda one: type(one).__name__)
async def test_a_lease_on_a_retried_job_is_fenced_too(
    store: Store, clock: ManualClock, verdict: Verdict
) -> None:
    """(003-09)"""
    [made] = await enqueue(store, job())
    await settle(store, fail(await claim_one(store), delay=0))
    stale = await claim_one(store)
    clock.advance(31)
    await store.reclaim()
    fresh = await claim_one(store)
    with pytest.raises(LeaseLost):
        await settle(store, [verdicts(stale, verdict)])
    await settle(store, done([fresh]))
    assert await state(store, made) is JobState.DONE


@KEYS
@pytest.mark.parametrize("verdict", EVERY_VERDICT, ids=lambda one: type(one).__name__)
async def test_a_job_is_settled_once(store: Store, key: str | None, verdict: Verdict) -> None:
    """(003-09)"""
    made = await enqueue(store, *jobs(2, key=key))
    [claimed] = await claim(store)
    await settle(store, [verdicts(claimed, Done())])
    with pytest.raises(LeaseLost):
        await settle(store, [verdicts(claimed, verdict)])
    assert await states(store, made) == [JobState.DONE, JobState.RUNNING]


async def test_one_lost_lease_spoils_the_whole_call(store: Store, clock: ManualClock) -> None:
    await enqueue(store, job(key="a"), job(key="b"), job())
    stale = await claim_one(store, lease_seconds=5)
    clock.advance(6)
    good = await claim(store)
    assert len(ids(good)) == 2
    await store.reclaim()
    before = await stored(store)
    with pytest.raises(LeaseLost) as lost:
        await settle(store, done([good[0], stale, good[1]]))
    assert lost.value.tokens == (stale.lease.token,)
    assert await stored(store) == before
    assert await states(store, ids(good)) == [JobState.RUNNING] * 2
    await settle(store, done(good))
    assert await states(store, ids(good)) == [JobState.DONE] * 2


@KEYS
async def test_a_position_outside_the_lease_is_lost(store: Store, key: str | None) -> None:
    made = await enqueue(store, *jobs(2, key=key))
    claimed = await claim_one(store)
    stranger = msgspec.structs.replace(claimed.jobs[0], position=2)
    wide = msgspec.structs.replace(claimed.lease, last=2)
    for lease in (claimed.lease, wide):
        with pytest.raises(LeaseLost):
            await settle(store, [Settlement(lease, [Outcome(stranger, Done())])])
    assert await states(store, made) == [JobState.RUNNING, JobState.WAITING]


async def test_a_lease_does_not_settle_another_lanes_job(store: Store) -> None:
    await enqueue(store, job(key="a"), job(key="b"))
    mine, others = await claim_one(store), await claim_one(store)
    forged = msgspec.structs.replace(mine.lease, lane=others.lease.lane, key=others.lease.key)
    with pytest.raises(LeaseLost):
        await settle(store, [Settlement(forged, done([others])[0].outcomes)])
    assert await states(store, ids([mine, others])) == [JobState.RUNNING] * 2


@KEYS
async def test_a_lease_that_ran_out_is_good_until_it_is_reclaimed(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    [made] = await enqueue(store, job(key=key))
    claims = await claim(store, lease_seconds=1)
    clock.advance(100)
    await settle(store, done(claims))
    assert await state(store, made) is JobState.DONE


@KEYS
async def test_a_released_job_is_waiting_again_and_its_attempt_is_not_counted(
    store: Store, other_store: Store, key: str | None
) -> None:
    made = await enqueue(store, *jobs(3, key=key))
    for worker in ("w1", "w2", "w3"):
        claims = await claim(other_store, worker=worker)
        assert sorted(ids(claims)) == made
        assert attempts(claims) == [1, 1, 1]
        await settle(store, release(claims))
        assert await states(store, made) == [JobState.WAITING] * 3
    assert sorted(await run_all(store)) == made


async def test_a_released_head_keeps_its_place_and_what_it_went_through(
    store: Store, clock: ManualClock
) -> None:
    made = await enqueue(store, *jobs(2, key="a"))
    await settle(store, fail(await claim_one(store), delay=1))
    clock.advance(1)
    claims = await claim(store)
    assert (ids(claims), attempts(claims)) == (made, [2, 1])
    await settle(store, release(claims))
    view = await store.job(made[0])
    assert (view.state, view.attempt) == (JobState.RETRYING, 1)
    assert [error.error for error in view.errors] == ["boom"]
    claims = await claim(store)
    assert (ids(claims), attempts(claims)) == (made, [2, 1])


@pytest.mark.parametrize("stop", [Retry(5, "boom"), Bury("hopeless"), Release()])
async def test_a_keyed_run_ends_where_a_job_was_not_done(
    store: Store, clock: ManualClock, stop: Verdict
) -> None:
    made = await enqueue(store, *jobs(5, key="a"))
    [claimed] = await claim(store, 4)
    await settle(store, [verdicts(claimed, Done(), stop)])
    found = await states(store, made)
    assert found[0] is JobState.DONE
    assert found[2:] == [JobState.WAITING] * 3
    assert await rows_of(store, "lease") == {"lease": 0}
    clock.advance(5)
    left = made[2:] if isinstance(stop, Bury) else made[1:]
    assert await run_all(store) == left


async def test_an_open_run_takes_every_verdict_at_once(store: Store) -> None:
    made = await enqueue(store, *jobs(4))
    [claimed] = await claim(store)
    await settle(store, [verdicts(claimed, Retry(9, "boom"), Done(), Release(), Bury("no"))])
    assert await states(store, made) == [
        JobState.RETRYING,
        JobState.DONE,
        JobState.WAITING,
        JobState.DEAD,
    ]
    assert await rows_of(store, "lease", "run") == {"lease": 0, "run": 0}
    assert ids(await claim(store)) == [made[2]]


async def test_one_call_settles_keyed_open_and_parked_together(store: Store) -> None:
    [again] = await enqueue(store, job())
    await settle(store, fail(await claim_one(store), delay=0))
    made = await enqueue(store, job(key="a"), job(key="b"), job())
    claims = await claim(store)
    assert sorted(ids(claims)) == sorted([again, *made])
    await settle(store, done(claims))
    assert await states(store, [again, *made]) == [JobState.DONE] * 4


@KEYS
@pytest.mark.parametrize(("table", "event"), [("lease", "delete"), ("stat", "insert")])
async def test_a_settle_that_breaks_off_leaves_the_jobs_leased(
    store: Store, key: str | None, table: str, event: str
) -> None:
    made = await enqueue(store, *jobs(3, key=key))
    claims = await claim(store)
    async with broken(store, table, event):
        with pytest.raises(Exception, match="broken by a test"):
            await settle(store, done(claims))
    assert await states(store, made) == [JobState.RUNNING] * 3
    await settle(store, done(claims))
    assert await states(store, made) == [JobState.DONE] * 3


@pytest.mark.parametrize(
    ("parts", "refusal"),
    [
        ([[(1, Done())], [(0, Done())]], OutOfOrder),
        ([[(1, Retry(1.0, "boom"))], [(0, Done())]], OutOfOrder),
        ([[(0, Retry(1.0, "boom"))], [(1, Release())]], None),
        ([[(0, Done())], [(1, Bury("no"))]], None),
        ([[(0, Retry(1.0, "boom"))], [(1, Done())]], OutOfOrder),
        ([[(0, Retry(1.0, "boom")), (2, Release())]], LeaseLost),
        ([[(0, Done()), (2, Done())]], LeaseLost),
        ([[(0, Done())], [(2, Done())]], LeaseLost),
    ],
)
async def test_settlements_of_one_lane_in_one_call_are_judged_as_one(
    store: Store, parts: list[list[tuple[int, Verdict]]], refusal: type[Exception] | None
) -> None:
    await enqueue(store, *jobs(3, key="a"))
    [claimed] = await claim(store)
    said = [
        Settlement(claimed.lease, [Outcome(claimed.jobs[n], verdict) for n, verdict in part])
        for part in parts
    ]
    if refusal is None:
        await settle(store, said)
    else:
        with pytest.raises(refusal):
            await settle(store, said)
        await settle(store, done([claimed]))
    assert await store.check() == []


@pytest.mark.parametrize("verdict", [Retry(0.0, "boom"), Bury("hopeless"), Done()])
async def test_a_lane_that_another_has_by_now_is_fenced_though_the_claim_it_came_with_lives_on(
    store: Store, verdict: Verdict
) -> None:
    """One claim holds two lanes under one token; of the first only the token tells who has it."""
    await enqueue(store, job(key="a"), job(key="b"))
    first, second = await claim(store)
    await settle(store, release([first]))
    [again] = await claim(store, worker="w2")
    assert (again.lease.lane, again.jobs[0].id) == (first.lease.lane, first.jobs[0].id)
    with pytest.raises(LeaseLost):
        await settle(store, [verdicts(first, verdict)])
    assert await store.extend([again.lease, second.lease]) == []
    await store.settle(done([again]), worker="w2")
    await settle(store, done([second]))
    assert await states(store, ids([again, second])) == [JobState.DONE] * 2

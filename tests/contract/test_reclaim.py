"""Reclaim: leases that ran out are taken back, and who killed a worker is found out fairly.

Promises P5 and P6 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from uuid import UUID

import pytest

from inturn.model.clock import ManualClock
from inturn.model.errors import LeaseLost
from inturn.model.job import JobState
from inturn.model.lane import LaneState, OnDead, QueueSettings, SuspectsRule
from inturn.model.lease import Claim, Reclaimed
from inturn.model.worker import WorkerView
from inturn.policy.retry import crash_delay_seconds
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Done
from inturn.store.store import Store
from tests.contract.support import (
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
    lane,
    release,
    run_all,
    settle,
    state,
    states,
    verdicts,
)

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])


async def die(store: Store, clock: ManualClock) -> Reclaimed:
    """Let every lease run out, as if all workers had died, and take them back."""
    clock.advance(31)
    return await store.reclaim()


async def test_a_lease_is_taken_back_when_it_runs_out_and_not_before(
    store: Store, clock: ManualClock
) -> None:
    [made] = await enqueue(store, job(key="a"))
    await claim(store, lease_seconds=10)
    assert await store.reclaim() == Reclaimed()
    clock.advance(9.999)
    assert await store.reclaim() == Reclaimed()
    assert await state(store, made) is JobState.RUNNING
    clock.advance(0.001)
    assert await store.reclaim() == Reclaimed(leases=1, suspects=1, buried=0)
    assert await state(store, made) is JobState.WAITING
    assert await store.reclaim() == Reclaimed()


@KEYS
async def test_what_workers_hold_whose_process_is_gone_is_taken_back_at_once(
    store: Store, key: str | None
) -> None:
    made = await enqueue(store, job(key=key), job(key="b"), job(key="c"))
    for worker, process in (("dead", "p1"), ("lives", "p2"), ("unknown", "")):
        await store.beat(WorkerView(id=worker, host="h", pid=1, version="v", process=process))
        await claim(store, 1, worker=worker)
    assert await store.reclaim(gone=["p3"]) == Reclaimed()
    assert await store.reclaim(gone=["p3", "p1"]) == Reclaimed(leases=1, suspects=1)
    assert sorted(await states(store, made)) == ["running", "running", "waiting"]
    await store.beat(WorkerView(id="dead", host="h", pid=1, version="v", process="p4"))
    assert (await claim(store, 1, worker="dead"))[0].lease.alone
    assert await store.reclaim(gone=["p1"]) == Reclaimed()  # the name is another's now


@KEYS
async def test_reclaimed_jobs_are_suspects_and_leased_alone(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    made = await enqueue(store, *jobs(3, key=key))
    await claim(store)
    assert await die(store, clock) == Reclaimed(leases=1, suspects=3, buried=0)
    assert [(await store.job(one)).suspect for one in made] == [True] * 3
    [innocent] = await enqueue(store, job(key="another"))
    ran = []
    for _ in range(3):
        claims = await claim(store)
        alone = [one for one in claims if one.lease.alone]
        assert [len(one.jobs) for one in alone] == [1]
        assert claims[0].lease.alone
        assert len({one.lease.token for one in claims}) == len(claims)
        ran += ids(alone)
        await settle(store, done(claims))
    assert ran == made if key else sorted(ran) == made
    assert await state(store, innocent) is JobState.DONE
    assert await claim(store) == []


@KEYS
async def test_what_was_settled_is_not_reclaimed(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    made = await enqueue(store, *jobs(4, key=key))
    [claimed] = await claim(store)
    await settle(store, [verdicts(claimed, Done(), Done())])
    assert await die(store, clock) == Reclaimed(leases=1, suspects=2, buried=0)
    assert await states(store, made) == [JobState.DONE] * 2 + [JobState.WAITING] * 2
    assert sorted(await run_all(store)) == made[2:]


@KEYS
async def test_a_crash_in_company_is_not_counted(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    """(003-08)"""
    made = await enqueue(store, *jobs(2, key=key, attempts_max=1))
    await claim(store)
    await die(store, clock)
    view = await store.job(made[0])
    assert (view.state, view.attempt, view.errors) == (JobState.WAITING, 0, ())
    claimed = await claim_one(store)
    assert attempts([claimed]) == [1]


@KEYS
async def test_a_job_that_kills_its_worker_alone_has_it_counted_until_it_is_buried(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    """(003-08)"""
    made = await enqueue(store, *jobs(3, key=key, attempts_max=3))
    await claim(store)
    await die(store, clock)
    if key is None:
        for neighbour in await claim(store, suspects_max=3):
            if ids([neighbour]) != [made[0]]:
                await settle(store, done([neighbour]))
            else:
                await settle(store, release([neighbour]))
    for crashes in (1, 2):
        claimed = await claim_one(store, worker=f"w{crashes}")
        assert (ids([claimed]), attempts([claimed])) == ([made[0]], [crashes])
        assert claimed.lease.alone
        assert await die(store, clock) == Reclaimed(leases=1, suspects=0, buried=0)
        view = await store.job(made[0])
        assert view.state is JobState.RETRYING
        assert view.run_at == clock.now() + timedelta(seconds=crash_delay_seconds(crashes))
        assert await claim(store) == []
        clock.advance(crash_delay_seconds(crashes))
    await claim_one(store, worker="w3")
    assert await die(store, clock) == Reclaimed(leases=1, suspects=0, buried=1)
    [letter] = (await store.dead_letters()).rows
    assert letter.job.id == made[0]
    assert letter.attempts == 3
    assert letter.reason == "its worker died 3 times while running it alone"
    assert [error.error for error in letter.errors] == [
        f"worker w{number} died while running this job alone" for number in (1, 2, 3)
    ]
    assert [error.worker for error in letter.errors] == ["w1", "w2", "w3"]
    assert [error.attempt for error in letter.errors] == [1, 2, 3]
    await run_all(store)
    assert await states(store, made[1:]) == [JobState.DONE] * 2


async def test_both_stores_wait_after_a_crash_as_the_policy_says(
    store: Store, clock: ManualClock
) -> None:
    keyed, unkeyed = await enqueue(store, job(key="a", attempts_max=99), job(attempts_max=99))
    await claim(store)
    await die(store, clock)
    for crashes in range(1, 10):
        assert len(await claim(store, suspects_max=2)) == 2
        await die(store, clock)
        delay = timedelta(seconds=crash_delay_seconds(crashes))
        for one in (keyed, unkeyed):
            assert (await store.job(one)).run_at == clock.now() + delay
        clock.advance(delay.total_seconds())
    await run_all(store)
    assert await states(store, [keyed, unkeyed]) == [JobState.DONE] * 2


async def test_a_halting_lane_halts_on_a_job_that_kills_its_worker(
    store: Store, clock: ManualClock
) -> None:
    await store.configure("default", QueueSettings(on_dead=OnDead.HALT))
    made = await enqueue(store, *jobs(2, key="a", attempts_max=1))
    await claim(store)
    await die(store, clock)
    await claim(store)
    assert (await die(store, clock)).buried == 1
    view = await lane(store, "a")
    assert (view.state, view.halted_job) == (LaneState.HALTED, made[0])
    assert await claim(store) == []
    assert await store.skip_lane("default", "a") == made[0]
    assert ids(await claim(store)) == [made[1]]


@KEYS
async def test_a_suspect_that_is_released_stays_a_suspect(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    [made] = await enqueue(store, job(key=key))
    await claim(store)
    await die(store, clock)
    await settle(store, release([await claim_one(store)]))
    assert (await store.job(made)).suspect
    claimed = await claim_one(store)
    assert (claimed.lease.alone, attempts([claimed])) == (True, [1])


async def test_a_suspect_that_failed_in_its_own_way_is_cleared(
    store: Store, clock: ManualClock
) -> None:
    """It came back by itself when it was alone, so it does not kill workers."""
    [made] = await enqueue(store, job())
    await claim(store)
    await die(store, clock)
    await settle(store, fail(await claim_one(store), delay=0))
    assert not (await store.job(made)).suspect
    assert not (await claim_one(store)).lease.alone


async def test_the_oldest_leases_are_taken_back_first_and_no_more_than_asked(
    store: Store, clock: ManualClock
) -> None:
    made = await enqueue(store, *(job(key=f"{number}") for number in range(5)))
    for seconds in (50, 10, 40, 20, 30):
        await claim_one(store, lease_seconds=seconds)
    clock.advance(60)
    assert (await store.reclaim(leases_max=2)).leases == 2
    assert await states(store, made) == [
        JobState.RUNNING,
        JobState.WAITING,
        JobState.RUNNING,
        JobState.WAITING,
        JobState.RUNNING,
    ]
    assert (await store.reclaim(leases_max=100)).leases == 3


@KEYS
async def test_a_reclaim_that_breaks_off_leaves_the_lease(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    made = await enqueue(store, *jobs(2, key=key))
    claims = await claim(store)
    clock.advance(31)
    async with broken(store, "lease", "delete"):
        with pytest.raises(Exception, match="broken by a test"):
            await store.reclaim()
    assert await states(store, made) == [JobState.RUNNING] * 2
    await settle(store, done(claims))
    assert await states(store, made) == [JobState.DONE] * 2


async def test_two_workers_that_reclaim_at_once_take_each_lease_back_once(
    store: Store, other_store: Store, clock: ManualClock
) -> None:
    await enqueue(store, *jobs(12))
    for _ in range(6):
        await claim(store, 2)
    clock.advance(31)
    given = await asyncio.gather(*(one.reclaim() for one in [store, other_store] * 3))
    assert sum(one.leases for one in given) == 6
    assert sum(one.suspects for one in given) == 12


@pytest.mark.parametrize("seed", range(2))
async def test_clock_skew_loses_nothing(
    store: Store, other_store: Store, clock: ManualClock, seed: int
) -> None:
    """The clock jumps hours forth and back under two workers; every job is done, in order.

    (001-20)
    """
    chance = random.Random(seed)
    batch = [
        job(key=chance.choice([None, "a", "b", "c"]), delay_seconds=chance.choice([0, 0, 0, 5]))
        for _ in range(40)
    ]
    finished: list[UUID] = []
    held: list[tuple[Store, list[Claim]]] = []
    pending = list(batch)
    for _ in range(60):
        if pending:
            some, pending = pending[:3], pending[3:]
            await store.enqueue(some)
        clock.advance(chance.choice([-7200, -40, -1, 0.5, 1, 35, 40, 7200]))
        mine = chance.choice([store, other_store])
        if claims := await claim(mine, 5, suspects_max=3):
            held.append((mine, claims))
        await chance.choice([store, other_store]).reclaim()
        if held and chance.random() < 0.7:
            owner, claims = held.pop(chance.randrange(len(held)))
            for one in claims:
                try:
                    await settle(owner, done([one]))
                except LeaseLost:
                    continue
                finished += ids([one])
        assert await store.check() == []
    clock.advance(1_000_000)
    await store.reclaim(leases_max=1_000)
    finished += await run_all(store)
    assert sorted(finished) == sorted(one.id for one in batch)
    for key in ("a", "b", "c"):
        mine_now = [one.id for one in batch if one.key == key and not one.delay_seconds]
        assert [one for one in finished if one in set(mine_now)] == mine_now


AGAIN = QueueSettings(suspects=SuspectsRule.AGAIN)


async def test_where_suspects_run_again_they_need_nobody_out_of_their_way_the_first_time(
    store: Store, clock: ManualClock
) -> None:
    await store.configure("default", AGAIN)
    keyed = await enqueue(store, *jobs(3, key="a"))
    plain = await enqueue(store, *jobs(3))
    retried = await enqueue(store, job())
    claims = await claim(store)
    assert ids(claims) == [*keyed, *plain, *retried]
    clock.advance(31)
    assert await store.reclaim() == Reclaimed(leases=1, suspects=0)
    assert not (await store.job(plain[0])).suspect
    claims = await claim(store, suspects_max=0)
    assert sorted(ids(claims)) == sorted([*keyed, *plain, *retried])
    assert not any(one.lease.alone for one in claims)
    assert set(attempts(claims)) == {1}
    assert await store.check() == []


async def test_where_suspects_run_again_one_whose_lease_runs_out_twice_runs_alone(
    store: Store, clock: ManualClock
) -> None:
    """(001-06)"""
    await store.configure("default", AGAIN)
    first, *keyed = await enqueue(store, *jobs(3, key="a"))
    *plain, done_one = await enqueue(store, *jobs(3))
    await claim(store)
    clock.advance(31)
    await store.reclaim()
    claims = await claim(store)
    await settle(
        store,
        [
            Settlement(one.lease, [Outcome(job, Done())])
            for one in claims
            for job in one.jobs[:1]
            if job.id in (first, done_one)
        ],
    )
    [new] = await enqueue(store, *jobs(1, key="a"))
    clock.advance(31)
    assert (await store.reclaim()).suspects == 4
    for _ in range(2):
        suspects = await claim(store, suspects_max=10)
        alone = [one for one in suspects if one.lease.alone]
        assert all(len(one.jobs) == 1 for one in alone)
        assert sorted(ids(alone)) == sorted([keyed[0], *plain])
        clock.advance(31)
        await store.reclaim()
        clock.advance(600)
    assert (await store.job(plain[0])).attempt == 2  # counted, for it was alone
    assert not (await store.job(new)).suspect
    assert await store.check() == []

"""Turn: settle, then claim what comes next, both in one transaction or neither."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from inturn.model.clock import ManualClock
from inturn.model.errors import InturnError, LeaseLost, OutOfOrder, WrongJob
from inturn.model.job import JobState
from inturn.model.lane import OnDead, QueueSettings
from inturn.model.lease import Claim
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Release, Retry, Verdict
from inturn.store.store import Store
from tests.contract.support import (
    EVERY_VERDICT,
    attempts,
    broken,
    claim,
    done,
    enqueue,
    ids,
    job,
    jobs,
    queue_status,
    release,
    rows_of,
    run_all,
    settle,
    state,
    states,
    stored,
    turn,
    verdicts,
)

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])


@KEYS
async def test_the_next_jobs_come_with_the_settling_of_those_before(
    store: Store, key: str | None
) -> None:
    made = await enqueue(store, *jobs(7, key=key))
    claims = await claim(store, 2)
    ran = ids(claims)
    while claims:
        claims = await turn(store, done(claims), 2)
        assert await states(store, ran) == [JobState.DONE] * len(ran)
        assert await states(store, ids(claims)) == [JobState.RUNNING] * len(ids(claims))
        ran += ids(claims)
    assert ran == made
    assert await rows_of(store, "lease", "run") == {"lease": 0, "run": 0}


async def test_a_turn_without_settlements_is_a_claim(store: Store) -> None:
    made = await enqueue(store, *jobs(2, key="a"), job())
    [held] = await claim(store, 1)
    for nothing in ([], [Settlement(held.lease, [])]):
        claims = await turn(store, nothing)
        assert ids(claims) == made[2:]
        await settle(store, release(claims))
    assert await state(store, made[0]) is JobState.RUNNING


@KEYS
async def test_a_lane_that_a_turn_drained_is_woken_by_the_next_job(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    claims: list[Claim] = []
    for _ in range(3):
        [made] = await enqueue(store, job(key=key))
        claims = await turn(store, done(claims))
        assert ids(claims) == [made]
        assert await turn(store, done(claims)) == []
        clock.advance(5)  # an open lane is put to sleep only when it was idle for a while
        assert await turn(store, []) == []
        assert await store.check() == []
        [made] = await enqueue(store, job(key=key))
        claims = await turn(store, [])
        assert ids(claims) == [made]


async def test_a_turn_settles_in_one_queue_and_claims_from_another(store: Store) -> None:
    mine, others = await enqueue(store, job(queue="p", key="a"), job(queue="q", key="a"))
    await enqueue(store, job(queue="p", key="a"))
    claims = await turn(store, done(await claim(store, 1, queue="p")), queue="q")
    assert (ids(claims), [one.lease.queue for one in claims]) == ([others], ["q"])
    assert await state(store, mine) is JobState.DONE


@KEYS
@pytest.mark.parametrize("on_dead", list(OnDead))
@pytest.mark.parametrize(
    "said",
    [*EVERY_VERDICT, Done('"result"'), Retry(0.0, "boom"), Retry(0.0, "later", False)],
    ids=["done", "retry", "bury", "release", "result", "retry at once", "retry uncounted"],
)
async def test_every_verdict_acts_as_it_does_in_a_settle(
    store: Store, key: str | None, on_dead: OnDead, said: Verdict
) -> None:
    """The same history twice, apart and in turns, must look the same."""
    seen = []
    for queue in ("apart", "in turn"):
        await store.configure(queue, QueueSettings(on_dead=on_dead))
        made = await enqueue(store, *jobs(5, queue=queue, key=key))
        shown = []
        for jobs_max in (2, 1, 100):
            for claimed in await claim(store, jobs_max, queue=queue):
                settlements = [verdicts(claimed, said, *[Done()] * isinstance(said, Done))]
                if queue == "apart":
                    await settle(store, settlements)
                    claims = await claim(store, jobs_max, queue=queue)
                else:
                    claims = await turn(store, settlements, jobs_max, queue=queue)
                shown.append(await look(store, made, queue, claims))
                await settle(store, release(claims))
        seen.append(shown)
    assert seen[0] == seen[1]


async def look(store: Store, made: list[UUID], queue: str, claims: list[Claim]) -> Any:
    """What can be seen of a queue, without ids, tokens and names."""
    views = [await store.job(id) for id in made]
    stats = await store.stats(queue, since=await store.now() - timedelta(hours=1))
    status = await queue_status(store, queue)
    return (
        [made.index(id) for id in ids(claims)],
        attempts(claims),
        [(one.lease.key, one.lease.first, one.lease.last, one.lease.alone) for one in claims],
        [(view.state, view.attempt, view.errors, view.worker) for view in views],
        [await store.result(id) for id in made],
        [msgspec.structs.replace(stat, queue="") for stat in stats],
        (status.waiting, status.running, status.retrying, status.dead),
    )


async def stale(store: Store, clock: ManualClock) -> tuple[type[InturnError], Settlement]:
    await enqueue(store, job(queue="lost"))
    [claimed] = await claim(store, queue="lost", lease_seconds=1)
    clock.advance(2)
    await store.reclaim()
    return LeaseLost, Settlement.done(claimed)


async def forged(store: Store, clock: ManualClock) -> tuple[type[InturnError], Settlement]:
    await enqueue(store, job(queue="p", key="a"), job(queue="q", key="a"))
    [one], [other] = await claim(store, queue="p"), await claim(store, queue="q")
    return WrongJob, Settlement(one.lease, [Outcome(other.jobs[0], Done('"mine"'))])


async def disordered(store: Store, clock: ManualClock) -> tuple[type[InturnError], Settlement]:
    await enqueue(store, *jobs(2, queue="p", key="a"))
    [claimed] = await claim(store, queue="p")
    return OutOfOrder, verdicts(claimed, Release(), Bury("hopeless"))


async def ahead(store: Store, clock: ManualClock) -> tuple[type[InturnError], Settlement]:
    await enqueue(store, *jobs(2, queue="p", key="a"))
    [claimed] = await claim(store, queue="p")
    return LeaseLost, Settlement(claimed.lease, [Outcome(claimed.jobs[1], Done())])


@KEYS
@pytest.mark.parametrize("wrong", [stale, forged, disordered, ahead], ids=lambda one: one.__name__)
async def test_a_refused_turn_writes_nothing_and_claims_nothing(
    store: Store, clock: ManualClock, wrong: Any, key: str | None
) -> None:
    """(003-09)"""
    made = await enqueue(store, *jobs(4, key=key))
    good = await claim(store, 2)
    error, bad = await wrong(store, clock)
    before = await stored(store), await rows_of(store, "stat"), await states(store, made)
    views = [await store.job(id) for id in made]
    with pytest.raises(error):
        await turn(store, [*done(good), bad])
    assert (await stored(store), await rows_of(store, "stat"), await states(store, made)) == before
    assert [await store.job(id) for id in made] == views
    assert ids(await turn(store, done(good))) == made[2:]
    assert await states(store, made[:2]) == [JobState.DONE] * 2


@KEYS
@pytest.mark.parametrize(
    ("table", "event"), [("lease", "insert"), ("lease", "delete"), ("stat", "insert")]
)
async def test_a_turn_that_breaks_off_settles_nothing_and_claims_nothing(
    store: Store, key: str | None, table: str, event: str
) -> None:
    """(001-02)"""
    made = await enqueue(store, *jobs(4, key=key))
    claims = await claim(store, 2)
    before = await stored(store), await rows_of(store, "stat")
    async with broken(store, table, event):
        with pytest.raises(Exception, match="broken by a test"):
            await turn(store, done(claims))
    assert (await stored(store), await rows_of(store, "stat")) == before
    assert await states(store, made) == [JobState.RUNNING] * 2 + [JobState.WAITING] * 2
    assert ids(await turn(store, done(claims))) == made[2:]
    assert await states(store, made) == [JobState.DONE] * 2 + [JobState.RUNNING] * 2


@KEYS
async def test_a_turn_that_is_cancelled_is_whole_or_nothing(store: Store, key: str | None) -> None:
    """(001-02)"""
    for turns in range(0, 12, 3):
        queue = f"queue {turns}"
        made = await enqueue(store, *jobs(4, queue=queue, key=key))
        claims = await claim(store, 2, queue=queue)
        turning = asyncio.ensure_future(turn(store, done(claims), queue=queue))
        for _ in range(turns):
            await asyncio.sleep(0)
        turning.cancel()
        await asyncio.gather(turning, return_exceptions=True)
        assert await store.check() == []
        # One read of all: it may still be committed behind the caller's back, but whole.
        views = {view.job.id: view.state for view in (await store.jobs(queue=queue)).rows}
        found = [views[id] for id in made]
        assert found in (
            [JobState.RUNNING] * 2 + [JobState.WAITING] * 2,
            [JobState.DONE] * 2 + [JobState.RUNNING] * 2,
        )


async def test_two_workers_who_take_turns_never_hold_the_same_job(
    store: Store, other_store: Store
) -> None:
    """(003-03)"""
    batch = [job(key=f"key {number % 7}" if number % 3 else None) for number in range(120)]
    await store.enqueue(batch)
    held: list[UUID] = []

    async def drain(mine: Store, worker: str) -> None:
        claims: list[Claim] = []
        while claims := await turn(mine, done(claims), 4, worker=worker):
            held.extend(ids(claims))
            await asyncio.sleep(0)

    workers = [(store, "w1"), (other_store, "w2"), (store, "w3"), (other_store, "w4")]
    while (await queue_status(store)).waiting:
        await asyncio.gather(*(drain(mine, worker) for mine, worker in workers))
    assert len(held) == len(batch)
    assert set(held) == {one.id for one in batch}
    assert await run_all(store) == []

"""Lanes: paused and resumed, halted on a dead letter until a person decides.

Promise P4 of ARCHITECTURE.md.
"""

from __future__ import annotations

import pytest

from inturn.model.clock import ManualClock
from inturn.model.errors import NotHalted, UnknownLane
from inturn.model.job import JobState
from inturn.model.lane import LaneState, OnDead, QueueSettings
from inturn.store.store import Store
from tests.contract.support import (
    attempts,
    bury,
    claim,
    claim_one,
    done,
    enqueue,
    fail,
    ids,
    job,
    job_ids,
    jobs,
    lane,
    page_through,
    queue_status,
    run_all,
    settle,
    state,
    states,
)

HALT = QueueSettings(on_dead=OnDead.HALT)


async def test_a_paused_lane_gives_nothing_until_it_is_resumed(store: Store) -> None:
    made = await enqueue(store, *jobs(2, key="a"))
    [free] = await enqueue(store, job(key="b"))
    await store.pause("default", key="a", by="ann")
    assert ids(await claim(store)) == [free]
    view = await lane(store, "a")
    assert (view.state, view.paused_by, view.depth) == (LaneState.PAUSED, "ann", 2)
    await store.resume("default", key="a")
    assert (await lane(store, "a")).paused_by is None
    assert await run_all(store) == made


async def test_what_runs_in_a_paused_lane_goes_on_running(store: Store) -> None:
    made = await enqueue(store, *jobs(3, key="a"))
    claims = await claim(store, 2)
    await store.pause("default", key="a", by="ann")
    assert await states(store, made) == [JobState.RUNNING] * 2 + [JobState.WAITING]
    await settle(store, done(claims))
    assert await claim(store) == []
    [later] = await enqueue(store, job(key="a"))
    assert await claim(store) == []
    await store.resume("default", key="a")
    assert await run_all(store) == [made[2], later]


async def test_a_lane_that_is_not_there_cannot_be_paused_or_resumed(store: Store) -> None:
    await enqueue(store, job(key="a"))
    for queue, key in [("default", "b"), ("other", "a")]:
        with pytest.raises(UnknownLane, match=key):
            await store.pause(queue, key=key, by="ann")
        with pytest.raises(UnknownLane, match=key):
            await store.resume(queue, key=key)
    assert len(await claim(store)) == 1


async def test_a_dead_head_halts_its_lane_if_the_queue_says_so(
    store: Store, clock: ManualClock
) -> None:
    """(003-07)"""
    await store.configure("default", HALT)
    made = await enqueue(store, *jobs(3, key="a"))
    [free] = await enqueue(store, job(key="b"))
    [claimed] = await claim(store, 3)
    await settle(store, bury(claimed))
    view = await lane(store, "a")
    assert (view.state, view.halted_job) == (LaneState.HALTED, made[0])
    assert await states(store, made) == [JobState.DEAD, JobState.WAITING, JobState.WAITING]
    clock.advance(100_000)
    await store.reclaim()
    assert ids(await claim(store)) == [free]
    [later] = await enqueue(store, job(key="a"))
    assert await claim(store) == []
    assert await state(store, later) is JobState.WAITING
    status = await queue_status(store)
    assert (status.halted, status.dead) == (1, 1)


async def test_a_dead_head_is_skipped_only_onto_the_list_of_dead_letters(
    store: Store,
) -> None:
    """(003-07)"""
    made = await enqueue(store, *jobs(2, key="a"))
    await settle(store, bury(await claim_one(store)))
    assert job_ids((await store.dead_letters()).rows) == [made[0]]
    assert await run_all(store) == [made[1]]


async def test_unkeyed_jobs_halt_no_one(store: Store) -> None:
    await store.configure("default", HALT)
    made = await enqueue(store, *jobs(2))
    await settle(store, bury(await claim_one(store)))
    assert ids(await claim(store)) == [made[1]]
    assert (await queue_status(store)).halted == 0


async def test_a_halted_lanes_head_is_retried_in_its_place_with_fresh_attempts(
    store: Store,
) -> None:
    await store.configure("default", HALT)
    made = await enqueue(store, *jobs(2, key="a", attempts_max=1))
    await settle(store, fail(await claim_one(store), delay=0))
    assert await store.retry_lane("default", "a") == made[0]
    view = await store.job(made[0])
    assert (view.state, view.position, view.errors) == (JobState.WAITING, 1, ())
    assert (await store.dead_letters()).rows == ()
    claims = await claim(store)
    assert (ids(claims), attempts(claims)) == (made, [1, 1])
    await settle(store, done(claims))
    assert await states(store, made) == [JobState.DONE] * 2


async def test_a_halted_lanes_head_is_skipped_and_stays_a_dead_letter(store: Store) -> None:
    await store.configure("default", HALT)
    made = await enqueue(store, *jobs(2, key="a"))
    await settle(store, bury(await claim_one(store)))
    assert await store.skip_lane("default", "a") == made[0]
    assert await state(store, made[0]) is JobState.DEAD
    assert await run_all(store) == [made[1]]
    assert (await queue_status(store)).halted == 0


async def test_a_halted_lanes_head_is_dropped_for_good(store: Store) -> None:
    await store.configure("default", HALT)
    made = await enqueue(store, *jobs(2, key="a"))
    await settle(store, bury(await claim_one(store)))
    assert await store.drop_lane("default", "a", by="ann") == made[0]
    view = await store.job(made[0])
    assert (view.state, view.cancelled_by) == (JobState.CANCELLED, "ann")
    assert view.reason == "dropped by ann"
    assert (await store.dead_letters()).rows == ()
    assert await run_all(store) == [made[1]]


@pytest.mark.parametrize("verb", ["retry", "skip", "drop"])
async def test_only_a_halted_lane_can_be_decided_on(store: Store, verb: str) -> None:
    made = await enqueue(store, *jobs(2, key="a"))
    with pytest.raises(NotHalted, match="'a'"):
        await decide(store, verb, "a")
    with pytest.raises(UnknownLane, match="'b'"):
        await decide(store, verb, "b")
    assert await run_all(store) == made


async def test_a_lane_says_what_it_is_doing(store: Store, clock: ManualClock) -> None:
    await store.configure("default", HALT)

    async def is_now(expected: LaneState, depth: int) -> None:
        view = await lane(store, "a")
        assert (view.state, view.depth) == (expected, depth)
        assert view.last - view.cursor + 1 == depth

    await enqueue(store, job("one", key="a", priority=2), job("two", key="a"))
    await is_now(LaneState.READY, 2)
    view = await lane(store, "a")
    assert (view.queue, view.key, view.kind, view.priority) == ("default", "a", "one", 2)
    claimed = await claim_one(store)
    await is_now(LaneState.LEASED, 1)
    await settle(store, fail(claimed, delay=5))
    await is_now(LaneState.SLEEPING, 2)
    assert (await lane(store, "a")).ready_at is not None
    clock.advance(5)
    await settle(store, done([await claim_one(store)]))
    await is_now(LaneState.READY, 1)
    view = await lane(store, "a")
    assert (view.kind, view.priority, view.ready_at) == ("two", 0, None)
    await settle(store, done([await claim_one(store)]))
    await is_now(LaneState.IDLE, 0)
    await enqueue(store, job(key="a", round=3))
    await is_now(LaneState.GATED, 1)
    assert (await lane(store, "a")).round == 3


async def test_lanes_are_listed_page_by_page(store: Store) -> None:
    await enqueue(store, *(job(key=f"key {number}") for number in range(7)), job(queue="other"))
    for rows_max in (1, 2, 3, 100):
        rows = await page_through(
            lambda **options: store.lanes("default", **options), rows_max=rows_max
        )
        assert {row.key for row in rows} == {f"key {number}" for number in range(7)}
        assert len(rows) == 7
    [other] = (await store.lanes("other")).rows
    assert (other.key, other.depth) == (None, 1)
    assert (await store.lanes("default", key="nobody")).rows == ()
    assert (await store.lanes("nowhere")).rows == ()


async def decide(store: Store, verb: str, key: str) -> None:
    if verb == "retry":
        await store.retry_lane("default", key)
    elif verb == "skip":
        await store.skip_lane("default", key)
    else:
        await store.drop_lane("default", key, by="ann")

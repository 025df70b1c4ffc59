"""Prune: what is finished goes when its time is over, and nothing else ever does.

Promise P17 of ARCHITECTURE.md.
"""

from __future__ import annotations

import pytest

from inturn.model.clock import ManualClock
from inturn.model.errors import UnknownJob
from inturn.model.job import JobState
from inturn.model.lane import QueueSettings
from inturn.model.worker import WorkerView
from inturn.policy.verdict import Done
from inturn.store.store import Store
from tests.contract.support import (
    bring_to,
    bury,
    claim,
    claim_one,
    done,
    enqueue,
    ids,
    job,
    jobs,
    rows_of,
    run_all,
    settle,
    state,
    states,
    stored,
    verdicts,
)

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
DAY = 86_400


async def is_gone(store: Store, job: object) -> bool:
    try:
        await store.job(job)  # type: ignore[arg-type]
    except UnknownJob:
        return True
    return False


@KEYS
async def test_a_done_job_is_kept_for_its_queues_time_from_the_first_prune_that_saw_it(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    await store.configure("default", QueueSettings(keep_done_seconds=100))
    made = await bring_to(store, JobState.DONE, key=key)
    clock.advance(1_000)
    assert (await store.prune()).jobs == 0
    clock.advance(99.5)
    assert (await store.prune()).jobs == 0
    assert await state(store, made) is JobState.DONE
    clock.advance(0.5)
    assert (await store.prune()).jobs == 1
    assert await is_gone(store, made)


@KEYS
@pytest.mark.parametrize(
    "wanted", [one for one in JobState if one not in (JobState.DONE, JobState.CANCELLED)]
)
async def test_what_is_not_finished_is_never_pruned(
    store: Store, clock: ManualClock, key: str | None, wanted: JobState
) -> None:
    await store.configure("default", QueueSettings(keep_done_seconds=0))
    made = await bring_to(store, wanted, key=key)
    for _ in range(4):
        await store.prune()
        assert await state(store, made) is wanted
        assert await store.check() == []
        clock.advance(10 if wanted is JobState.RETRYING else 300)


@KEYS
async def test_only_what_is_finished_of_a_lane_goes(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    await store.configure("default", QueueSettings(keep_done_seconds=0))
    made = await enqueue(store, *jobs(6, key=key))
    await settle(store, done(await claim(store, 2)))
    claims = await claim(store, 2)
    assert (await store.prune()).jobs == 2
    assert [await is_gone(store, one) for one in made] == [True] * 2 + [False] * 4
    await settle(store, [verdicts(claims[0], Done())])
    await store.prune()
    assert await states(store, made[3:]) == [
        JobState.RUNNING,
        JobState.WAITING,
        JobState.WAITING,
    ]
    remaining = claims[0].jobs[1:]
    assert [one.id for one in remaining] == [made[3]]
    clock.advance(31)
    await store.reclaim()
    assert sorted(await run_all(store)) == made[3:]


async def test_an_open_lane_is_finished_only_up_to_its_oldest_lease(store: Store) -> None:
    await store.configure("default", QueueSettings(keep_done_seconds=0))
    made = await enqueue(store, *jobs(6))
    await settle(store, done(await claim(store, 2)))
    held = await claim(store, 2)
    await settle(store, done(await claim(store, 2)))
    await store.prune()
    assert [await is_gone(store, one) for one in made[:2]] == [True, True]
    assert await states(store, ids(held)) == [JobState.RUNNING] * 2
    await settle(store, done(held))
    await store.prune()
    assert [await is_gone(store, one) for one in made] == [True] * 6


@KEYS
async def test_a_lane_with_nothing_left_goes_and_comes_back(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    await bring_to(store, JobState.DONE, key=key)
    for _ in range(3):
        clock.advance(2 * DAY)
        await claim(store)
        await store.prune()
    assert (await store.lanes("default")).rows == ()
    assert await rows_of(store, "lane", "tail", "mark", "job") == dict.fromkeys(
        ("lane", "tail", "mark", "job"), 0
    )
    [later] = await enqueue(store, job(key=key))
    assert await run_all(store) == [later]


@KEYS
@pytest.mark.parametrize(
    "before", [JobState.WAITING, JobState.BLOCKED, JobState.SCHEDULED, JobState.RETRYING]
)
async def test_a_cancelled_job_goes_when_it_was_kept_long_enough(
    store: Store, clock: ManualClock, key: str | None, before: JobState
) -> None:
    await store.configure("default", QueueSettings(keep_done_seconds=100))
    made = await bring_to(store, before, key=key)
    await store.cancel(made, by="ann")
    await claim(store)
    await store.prune()
    assert await state(store, made) is JobState.CANCELLED
    for _ in range(3):
        clock.advance(101)
        await store.prune()
    assert await is_gone(store, made)
    counted = await stored(store)
    assert (counted["cancelled"], counted["parked"]) == (0, 0)


async def test_dedupe_keys_go_when_their_window_is_over(store: Store, clock: ManualClock) -> None:
    await enqueue(store, job(dedupe="short", dedupe_seconds=10), job(dedupe="long"))
    clock.advance(9)
    assert (await store.prune()).dedupes == 0
    clock.advance(2)
    assert (await store.prune()).dedupes == 1
    assert await rows_of(store, "dedupe") == {"dedupe": 1}


async def test_statistics_go_after_seven_days(store: Store, clock: ManualClock) -> None:
    start = clock.now()
    await bring_to(store, JobState.DONE)
    clock.advance(7 * DAY - 120)
    await store.prune()
    assert len(await store.stats("default", since=start)) == 1
    clock.advance(240)
    assert (await store.prune()).stats == 1
    assert await store.stats("default", since=start) == []


async def test_workers_that_were_silent_for_a_day_go(store: Store, clock: ManualClock) -> None:
    await store.beat(WorkerView(id="old", host="h", pid=1, version="v"))
    clock.advance(DAY - 60)
    await store.beat(WorkerView(id="new", host="h", pid=2, version="v"))
    assert (await store.prune()).workers == 0
    clock.advance(120)
    assert (await store.prune()).workers == 1
    assert [one.id for one in await store.workers()] == ["new"]


async def test_dead_letters_are_never_pruned(store: Store, clock: ManualClock) -> None:
    await enqueue(store, job(key="a", payload="[7]"))
    await settle(store, bury(await claim_one(store)))
    for _ in range(5):
        clock.advance(100 * DAY)
        await store.prune()
    [letter] = (await store.dead_letters()).rows
    assert letter.job.payload == "[7]"

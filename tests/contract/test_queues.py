"""Queues: their settings, their bounds, and a status that adds up.

Promise P16 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from inturn.model.clock import ManualClock
from inturn.model.errors import OutOfBounds, QueueFull
from inturn.model.job import JobState
from inturn.model.lane import OnDead, QueueSettings
from inturn.store.store import Store
from tests.contract.support import (
    bring_to,
    claim,
    claim_one,
    done,
    enqueue,
    fail,
    job,
    jobs,
    queue_status,
    release,
    run_all,
    settle,
    stored,
)


async def test_a_queue_is_made_by_its_first_job_with_the_default_settings(store: Store) -> None:
    assert await store.queues() == []
    await enqueue(store, job(queue="mail"))
    status = await queue_status(store, "mail")
    assert status.settings == QueueSettings()
    assert (status.gate, status.paused_by, status.waiting) == (0, None, 1)


async def test_settings_are_kept_as_they_were_given(store: Store, other_store: Store) -> None:
    settings = QueueSettings(
        on_dead=OnDead.HALT,
        depth_max=1_000,
        lane_depth_max=10,
        keep_done_seconds=0.5,
        aging_seconds=12.25,
    )
    await store.configure("mail", settings)
    assert (await queue_status(other_store, "mail")).settings == settings
    await store.configure("mail", QueueSettings())
    assert (await queue_status(other_store, "mail")).settings == QueueSettings()


@pytest.mark.parametrize(
    "wrong",
    [
        {"depth_max": 0},
        {"lane_depth_max": 0},
        {"keep_done_seconds": float("nan")},
        {"aging_seconds": 0.0},
    ],
    ids=str,
)
async def test_settings_that_cannot_be_are_refused(store: Store, wrong: dict[str, Any]) -> None:
    with pytest.raises(OutOfBounds, match=next(iter(wrong))):
        await store.configure("mail", QueueSettings(**wrong))
    assert await store.queues() == []


async def test_every_state_is_counted_where_it_belongs(store: Store) -> None:
    for key in (None, "a"):
        for wanted in JobState:
            await bring_to(store, wanted, queue=f"{wanted}", key=key)
    found = {status.name: status for status in await store.queues()}
    for wanted in JobState:
        status = found[wanted]
        counted = {
            "running": status.running,
            "scheduled": status.scheduled,
            "blocked": status.blocked,
            "dead": status.dead,
            "retrying": status.retrying,
        }
        expected = dict.fromkeys(counted, 0)
        if wanted in expected:
            expected[wanted] = 2
        assert counted == expected, wanted
        if wanted is not JobState.RETRYING:  # a keyed head between attempts is also in its line
            assert status.waiting == (2 if wanted is JobState.WAITING else 0), wanted


async def test_the_oldest_waiting_job_gives_the_age(store: Store, clock: ManualClock) -> None:
    start = clock.now()
    await enqueue(store, job(key="a"))
    clock.advance(10)
    later = clock.now()
    await enqueue(store, job(key="a"), job(key="b"))
    assert (await queue_status(store)).oldest_at == start
    claims = await claim(store, 1)
    assert (await queue_status(store)).oldest_at == later
    await settle(store, done(claims))
    assert (await queue_status(store)).oldest_at == later
    await run_all(store)
    assert (await queue_status(store)).oldest_at is None


async def test_a_paused_queue_gives_nothing_and_goes_on_taking(store: Store) -> None:
    made = await enqueue(store, *jobs(2, key="a"))
    claims = await claim(store, 1)
    await store.pause("default", by="ann")
    assert (await queue_status(store)).paused_by == "ann"
    made += await enqueue(store, job(key="a"))
    await settle(store, done(claims))
    assert await claim(store) == []
    await store.resume("default")
    assert (await queue_status(store)).paused_by is None
    assert await run_all(store) == made[1:]


async def test_a_full_queue_refuses_and_says_how_full_it_is(store: Store) -> None:
    await store.configure("mail", QueueSettings(depth_max=3))
    await enqueue(store, job(queue="mail"), job(queue="mail", key="a"))
    before = await stored(store)
    with pytest.raises(QueueFull, match="'mail'") as full:
        await store.enqueue(jobs(2, queue="mail"))
    assert (full.value.queue, full.value.key) == ("mail", None)
    assert (full.value.depth, full.value.depth_max) == (2, 3)
    assert await stored(store) == before
    await enqueue(store, job(queue="mail"))
    with pytest.raises(QueueFull):
        await store.enqueue([job(queue="mail")])


@pytest.mark.parametrize("is_aside", [False, True], ids=["in lanes", "delayed"])
async def test_a_large_queue_is_bounded_too(store: Store, is_aside: bool) -> None:
    """Past a thousand lanes, or delayed jobs, PostgreSQL counts no more than once a second."""
    await store.configure("mail", QueueSettings(depth_max=2_000))
    delay_seconds = 60.0 if is_aside else 0.0
    await enqueue(
        store,
        *(job(queue="mail", key=str(key), delay_seconds=delay_seconds) for key in range(1_500)),
    )
    for _ in range(5):
        await enqueue(store, *jobs(100, queue="mail", key="hot"))
    with pytest.raises(QueueFull) as full:
        await store.enqueue(jobs(100, queue="mail", key="hot"))
    assert full.value.depth == 2_000
    await settle(store, done(await claim(store, 100, queue="mail")))
    async with asyncio.timeout(60):  # until what was settled is counted
        while True:
            with suppress(QueueFull):
                await enqueue(store, *jobs(100, queue="mail", key="hot"))
                break


@pytest.mark.parametrize("wanted", [JobState.BLOCKED, JobState.SCHEDULED, JobState.RETRYING])
async def test_jobs_that_wait_elsewhere_count_towards_the_depth(
    store: Store, wanted: JobState
) -> None:
    await store.configure("mail", QueueSettings(depth_max=2))
    await bring_to(store, wanted, queue="mail")
    await enqueue(store, job(queue="mail"))
    with pytest.raises(QueueFull):
        await store.enqueue([job(queue="mail")])


@pytest.mark.parametrize("options", [{"delay_seconds": 5.0}, {}], ids=["delayed", "plain"])
async def test_every_sort_of_new_job_is_bounded(store: Store, options: dict[str, Any]) -> None:
    await store.configure("mail", QueueSettings(depth_max=1))
    await enqueue(store, job(queue="mail"))
    with pytest.raises(QueueFull):
        await store.enqueue([job(queue="mail", **options)])
    [other] = await enqueue(store, job())
    with pytest.raises(QueueFull):
        await store.enqueue([job(queue="mail", after=frozenset({other}))])


async def test_a_full_lane_refuses_and_its_neighbours_do_not(store: Store) -> None:
    await store.configure("mail", QueueSettings(lane_depth_max=2))
    await enqueue(store, *jobs(2, queue="mail", key="hot"))
    before = await stored(store)
    with pytest.raises(QueueFull, match="'hot'") as full:
        await store.enqueue([job(queue="mail", key="cold"), job(queue="mail", key="hot")])
    assert (full.value.queue, full.value.key) == ("mail", "hot")
    assert (full.value.depth, full.value.depth_max) == (2, 2)
    assert await stored(store) == before
    await enqueue(store, job(queue="mail", key="cold"), *jobs(5, queue="mail"))
    claims = await claim(store, 1, queue="mail")
    assert claims[0].lease.key == "hot"
    await enqueue(store, job(queue="mail", key="hot"))
    with pytest.raises(QueueFull):
        await enqueue(store, job(queue="mail", key="hot"))
    await settle(store, release(claims))


async def test_a_cancelled_job_makes_room_in_a_full_lane(store: Store) -> None:
    await store.configure("mail", QueueSettings(lane_depth_max=2, depth_max=2))
    made = await enqueue(store, *jobs(2, queue="mail", key="a"))
    await store.cancel(made[1], by="ann")
    assert (await queue_status(store, "mail")).waiting == 1
    [later] = await enqueue(store, job(queue="mail", key="a"))
    assert await run_all(store, queue="mail") == [made[0], later]


@pytest.mark.parametrize("delay", [0.0, 60.0], ids=["due", "asleep"])
async def test_the_oldest_job_is_one_that_waits_and_none_that_is_between_attempts(
    store: Store, clock: ManualClock, delay: float
) -> None:
    await enqueue(store, job(key="a"))
    await settle(store, fail(await claim_one(store), delay=delay))
    status = await queue_status(store)
    assert (status.waiting, status.retrying, status.oldest_at) == (0, 1, None)
    clock.advance(5)
    behind = clock.now()
    await enqueue(store, job(key="a"))
    clock.advance(5)
    await enqueue(store, job(key="b"))
    assert (await queue_status(store)).oldest_at == behind
    [second] = [one.job.id for one in (await store.jobs(state=JobState.WAITING, key="a")).rows]
    await store.cancel(second, by="ann")
    assert (await queue_status(store)).oldest_at == clock.now()

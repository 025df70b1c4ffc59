"""Dropping a queue: only what holds no work goes, and nothing of it is left."""

from __future__ import annotations

import asyncio

import pytest

from inturn.model.clock import ManualClock
from inturn.model.errors import QueueInUse, UnknownJob, UnknownQueue
from inturn.model.job import JobState
from inturn.model.lane import OnDead, QueueSettings
from inturn.store.store import Store
from tests.contract.support import (
    bring_to,
    claim,
    done,
    enqueue,
    ids,
    job,
    jobs,
    run_all,
    settle,
    state,
)


async def names(store: Store) -> list[str]:
    return [one.name for one in await store.queues()]


async def test_an_empty_queue_goes_with_its_settings_and_history(store: Store) -> None:
    await store.configure("default", QueueSettings(rate=100, rate_seconds=60.0))
    made = await enqueue(store, *jobs(3, key="a"), *jobs(3), job(dedupe="d"))
    other = await enqueue(store, job(queue="other"))
    await store.cancel(made[1], by="ann")
    await run_all(store)
    await store.prune()
    await store.drop_queue("default")
    assert await names(store) == ["other"]
    for one in made:
        with pytest.raises(UnknownJob):
            await store.job(one)
    assert await store.stats("default", since=(await store.now()).replace(year=2000)) == []
    assert await store.check() == []
    again = await enqueue(store, job(dedupe="d"))
    assert (await store.settings())["default"] == QueueSettings()
    assert await run_all(store) == again
    assert await state(store, other[0]) is JobState.WAITING
    assert await store.check() == []


@pytest.mark.parametrize(
    "where", [one for one in JobState if one not in (JobState.DONE, JobState.CANCELLED)]
)
async def test_a_queue_that_holds_something_stays_unless_all_is_to_go(
    store: Store, clock: ManualClock, where: JobState
) -> None:
    made = await bring_to(store, where, key="a")
    with pytest.raises(QueueInUse, match="queue 'default' holds"):
        await store.drop_queue("default")
    assert await state(store, made) is where
    if where is JobState.RUNNING:
        with pytest.raises(QueueInUse, match="1 of them run"):
            await store.drop_queue("default", all=True)
        [status] = [one for one in await store.queues() if one.name == "default"]
        assert status.paused_by is None
        return
    await store.drop_queue("default", all=True, by="ann")
    assert "default" not in await names(store)
    assert await store.check() == []


async def test_what_waits_elsewhere_for_a_job_of_a_dropped_queue_hears_of_it(store: Store) -> None:
    [awaited] = await enqueue(store, job())
    [waiting] = await enqueue(store, job(queue="other", after=frozenset({awaited})))
    await store.drop_queue("default", all=True, by="ann")
    assert await state(store, waiting) is JobState.DEAD
    assert await store.check() == []


async def test_a_halted_lane_goes_with_its_queue(store: Store) -> None:
    await store.configure("default", QueueSettings(on_dead=OnDead.HALT))
    await bring_to(store, JobState.DEAD, key="a")
    await enqueue(store, *jobs(3, key="a"))
    await store.drop_queue("default", all=True)
    assert await names(store) == []
    assert await store.check() == []


async def test_a_queue_that_is_not_there_is_named(store: Store) -> None:
    with pytest.raises(UnknownQueue):
        await store.drop_queue("nowhere")


async def test_jobs_that_are_submitted_meanwhile_are_not_lost(
    store: Store, other_store: Store
) -> None:
    made = []
    for number in range(10):
        batch = jobs(5, key=None if number % 2 else "a")
        accepted, _ = await asyncio.gather(
            enqueue(other_store, *batch), store.drop_queue("default"), return_exceptions=True
        )
        assert isinstance(accepted, list)
        made += accepted
        assert await store.check() == []
        claims = await claim(store)
        assert sorted(ids(claims)) == sorted(accepted)
        await settle(store, done(claims))
    assert len(made) == 50

"""A queue that is full: refused, with a time to come back that follows from how it drains."""

from __future__ import annotations

import pytest

from inturn.model import bounds
from inturn.model.clock import ManualClock
from inturn.model.errors import QueueFull
from inturn.model.lane import QueueSettings
from inturn.store.store import Store
from tests.contract.support import claim, done, enqueue, job, jobs, settle


async def test_a_refusal_says_when_to_come_back(store: Store, clock: ManualClock) -> None:
    await fill(store)
    await drain(store, clock, jobs_each=10, minutes=2)  # 20 jobs in 120 seconds
    full = await refused(store, 5)
    assert full.added == 5
    assert full.retry_seconds == 30
    assert "30 s" in str(full)


async def test_the_time_to_come_back_is_neither_at_once_nor_never(
    store: Store, clock: ManualClock
) -> None:
    await fill(store)
    await drain(store, clock, jobs_each=100, minutes=1)
    assert (await refused(store, 1)).retry_seconds == bounds.COME_BACK_SECONDS_MIN
    clock.advance(3_600)
    await drain(store, clock, jobs_each=1, minutes=1)
    assert (await refused(store, 90)).retry_seconds == bounds.COME_BACK_SECONDS_MAX


async def test_a_full_lane_says_it_too(store: Store, clock: ManualClock) -> None:
    await store.configure("mail", QueueSettings(lane_depth_max=1))
    await enqueue(store, *jobs(12, queue="mail"), job(queue="mail", key="a"))
    for one in await claim(store, 12, queue="mail"):
        await settle(store, done([one]))
    clock.advance(60)
    with pytest.raises(QueueFull, match="lane 'a'") as full:
        await enqueue(store, *jobs(2, queue="mail", key="a"))
    assert full.value.retry_seconds in (5, 10)  # 12 or 13 were settled, 1 or 2 are too many


async def test_a_batch_that_never_fits_is_told_so(store: Store) -> None:
    await store.configure("mail", QueueSettings(depth_max=3))
    with pytest.raises(QueueFull, match="smaller batches"):
        await enqueue(store, *jobs(4, queue="mail"))


async def fill(store: Store) -> None:
    await store.configure("mail", QueueSettings(depth_max=100))
    await enqueue(store, *jobs(100, queue="mail"))


async def drain(store: Store, clock: ManualClock, *, jobs_each: int, minutes: int) -> None:
    """Settle so many jobs in each of some minutes, and fill the queue again."""
    for _ in range(minutes):
        await settle(store, done(await claim(store, jobs_each, queue="mail")))
        await enqueue(store, *jobs(jobs_each, queue="mail"))
        clock.advance(60)


async def refused(store: Store, number: int) -> QueueFull:
    with pytest.raises(QueueFull) as full:
        await enqueue(store, *jobs(number, queue="mail"))
    return full.value

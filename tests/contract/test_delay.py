"""Delay: a job takes its place in line only when it is due, and then it does.

Promise P9 of ARCHITECTURE.md.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from inturn.model import bounds
from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.store.store import Store
from tests.contract.support import (
    claim,
    done,
    enqueue,
    ids,
    job,
    jobs,
    queue_status,
    run_all,
    settle,
    state,
)

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])


@KEYS
@pytest.mark.parametrize("delay", [0.001, 86_400.5])
async def test_a_delayed_job_is_claimed_when_it_is_due_and_not_before(
    store: Store, clock: ManualClock, key: str | None, delay: float
) -> None:
    [ticket] = await store.enqueue([job(key=key, delay_seconds=delay)])
    assert (ticket.lane, ticket.position) == (None, None)
    view = await store.job(ticket.id)
    assert view.state is JobState.SCHEDULED
    assert view.run_at == clock.now() + timedelta(seconds=delay)
    assert (await queue_status(store)).scheduled == 1
    clock.advance(delay - 0.000_5)
    assert await claim(store) == []
    clock.advance(0.000_5)
    claims = await claim(store)
    assert ids(claims) == [ticket.id]
    assert claims[0].jobs[0].attempt == 1
    assert (await queue_status(store)).scheduled == 0
    await settle(store, done(claims))
    assert await state(store, ticket.id) is JobState.DONE


async def test_a_delayed_job_joins_the_tail_of_its_lane(store: Store, clock: ManualClock) -> None:
    [delayed] = await enqueue(store, job(key="a", delay_seconds=10))
    accepted_at = clock.now()
    plain = await enqueue(store, *jobs(2, key="a"))
    clock.advance(10)
    claims = await claim(store)
    assert ids(claims) == [*plain, delayed]
    assert claims[0].jobs[2].enqueued_at == accepted_at
    assert claims[0].jobs[2].position == 3


async def test_delayed_jobs_of_a_key_run_in_the_order_they_are_due(
    store: Store, clock: ManualClock
) -> None:
    made = await enqueue(store, *(job(key="a", delay_seconds=delay) for delay in (3, 1, 2, 1)))
    clock.advance(5)
    assert await run_all(store) == [made[1], made[3], made[2], made[0]]


async def test_due_jobs_that_are_more_than_one_claim_moves_all_run(
    store: Store, clock: ManualClock
) -> None:
    made = await enqueue(store, *jobs(bounds.DUE_JOBS_MAX + 100, delay_seconds=1))
    clock.advance(1)
    ran = await run_all(store, jobs_max=5_000)
    assert sorted(ran) == made

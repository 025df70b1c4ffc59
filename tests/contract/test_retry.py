"""Retry: a failed job runs again when its time has come, in its place, as often as it may.

Promises P1, P5 and P9 of ARCHITECTURE.md.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from inturn.model import bounds
from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.store.store import Store
from tests.contract.support import (
    attempts,
    claim,
    claim_one,
    done,
    enqueue,
    fail,
    ids,
    job,
    jobs,
    run_all,
    settle,
    state,
)

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])


@KEYS
async def test_a_job_in_backoff_is_not_claimed_early_by_anyone(
    store: Store, other_store: Store, clock: ManualClock, key: str | None
) -> None:
    """(001-11)"""
    [made] = await enqueue(store, job(key=key))
    await settle(store, fail(await claim_one(store), delay=60))
    for _ in range(6):
        assert await claim(store, worker="w1") == []
        assert await claim(other_store, worker="w2", suspects_max=9) == []
        assert await state(store, made) is JobState.RETRYING
        clock.advance(9.999)
        await other_store.reclaim()
    assert await claim(store) == []
    clock.advance(0.006)
    assert ids(await claim(other_store)) == [made]


@KEYS
@pytest.mark.parametrize("delay", [0.001, 12.345678])
async def test_a_delay_is_kept_to_the_microsecond(
    store: Store, clock: ManualClock, key: str | None, delay: float
) -> None:
    """(001-12)"""
    clock.advance(0.123456)
    [made] = await enqueue(store, job(key=key))
    await settle(store, fail(await claim_one(store), delay=delay))
    view = await store.job(made)
    due = clock.now() + timedelta(seconds=delay)
    assert view.run_at == due
    clock.advance(delay - 0.000_5)
    assert await claim(store) == []
    clock.advance(0.000_5)
    assert clock.now() == due
    assert ids(await claim(store)) == [made]


async def test_a_job_that_waits_to_retry_holds_back_its_lane(
    store: Store, clock: ManualClock
) -> None:
    made = await enqueue(store, *jobs(3, key="a"))
    [elsewhere] = await enqueue(store, job(key="b"))
    [claimed] = await claim(store, 1)
    await settle(store, fail(claimed, delay=10))
    assert ids(await claim(store)) == [elsewhere]
    assert (await store.job(made[0])).position == 1
    clock.advance(10)
    assert await run_all(store) == made


async def test_an_unkeyed_job_that_waits_to_retry_holds_back_no_one(store: Store) -> None:
    first, second = await enqueue(store, *jobs(2))
    await settle(store, fail(await claim_one(store)))
    assert await state(store, first) is JobState.RETRYING
    assert ids(await claim(store)) == [second]


@KEYS
async def test_attempts_are_counted_and_the_last_one_buries(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    [made] = await enqueue(store, job(key=key, attempts_max=3))
    for attempt in (1, 2, 3):
        claimed = await claim_one(store)
        assert attempts([claimed]) == [attempt]
        await settle(store, fail(claimed, delay=1, error=f"boom {attempt}"))
        clock.advance(1)
    view = await store.job(made)
    assert view.state is JobState.DEAD
    assert view.reason == "failed 3 times, the last time: boom 3"
    assert await claim(store) == []


@KEYS
async def test_an_uncounted_attempt_is_given_back_as_often_as_need_be(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    [made] = await enqueue(store, job(key=key, attempts_max=1))
    for _ in range(5):
        claimed = await claim_one(store)
        assert attempts([claimed]) == [1]
        await settle(store, fail(claimed, delay=2, counted=False, error="later"))
        view = await store.job(made)
        assert view.attempt == 0
        assert view.run_at == clock.now() + timedelta(seconds=2)
        assert (await store.jobs(finished=False)).rows == (view,)
        assert await claim(store) == []
        clock.advance(2)
    await settle(store, done([await claim_one(store)]))
    assert await state(store, made) is JobState.DONE


@KEYS
async def test_an_error_is_kept_whatever_it_is_made_of(store: Store, key: str | None) -> None:
    [made] = await enqueue(store, job(key=key))
    nasty = 'nul \x00, lone \ud800, "quotes", back\\slash, 日本語 🎈\n' + "x" * 20_000
    await settle(store, fail(await claim_one(store), delay=0, error=nasty))
    [error] = (await store.job(made)).errors
    assert error.error.startswith('nul \\0, lone \\ud800, "quotes", back\\slash, 日本語 🎈\n')
    assert len(error.error) == bounds.ERROR_CHARS_MAX
    assert error.error.endswith("x…")

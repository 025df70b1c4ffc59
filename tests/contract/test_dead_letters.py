"""Dead letters: set aside whole, listed, put back once, or dropped for good.

Promise P4 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio

import pytest

from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.model.lane import OnDead, QueueSettings
from inturn.store.store import Store
from tests.contract.support import (
    NOWHERE,
    attempts,
    bring_to,
    broken,
    bury,
    claim,
    claim_one,
    enqueue,
    fail,
    ids,
    job,
    job_ids,
    jobs,
    page_through,
    rows_of,
    run_all,
    settle,
    state,
    states,
)

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
ELSEWHERE = {"parked": 0, "blocked": 0, "cancelled": 0}


@KEYS
async def test_burying_is_atomic_never_in_both_places_never_in_none(
    store: Store, key: str | None
) -> None:
    """(001-08)"""
    made = await enqueue(store, *jobs(2, key=key))
    claimed = await claim_one(store)
    for table, event in [("dead", "insert"), ("lease", "delete"), ("stat", "insert")]:
        async with broken(store, table, event):
            with pytest.raises(Exception, match="broken by a test"):
                await settle(store, bury(claimed))
        assert await rows_of(store, "dead", "lease") == {"dead": 0, "lease": 1}
        assert await states(store, made) == [JobState.RUNNING, JobState.WAITING]
    await settle(store, bury(claimed))
    assert await rows_of(store, "dead", "lease") == {"dead": 1, "lease": 0}
    assert await rows_of(store, *ELSEWHERE) == ELSEWHERE
    assert await states(store, made) == [JobState.DEAD, JobState.WAITING]
    assert job_ids((await store.jobs()).rows) == made[::-1]


@KEYS
async def test_the_last_retry_and_the_last_crash_bury_atomically(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    """(001-08)"""
    [made] = await enqueue(store, job(key=key, attempts_max=1))
    claimed = await claim_one(store)
    async with broken(store, "dead", "insert"):
        with pytest.raises(Exception, match="broken by a test"):
            await settle(store, fail(claimed))
    assert await state(store, made) is JobState.RUNNING
    clock.advance(31)
    await store.reclaim()
    await claim_one(store)
    clock.advance(31)
    async with broken(store, "dead", "insert"):
        with pytest.raises(Exception, match="broken by a test"):
            await store.reclaim()
    assert await state(store, made) is JobState.RUNNING
    assert (await store.reclaim()).buried == 1
    assert await state(store, made) is JobState.DEAD
    assert await rows_of(store, "dead", "parked", "lease") == {"dead": 1, "parked": 0, "lease": 0}


@KEYS
async def test_putting_back_and_dropping_are_atomic(store: Store, key: str | None) -> None:
    """(001-08)"""
    dead = await bring_to(store, JobState.DEAD, key=key)
    async with broken(store, "dead", "delete"):
        with pytest.raises(Exception, match="broken by a test"):
            await store.dead_retry([dead])
        with pytest.raises(Exception, match="broken by a test"):
            await store.dead_drop([dead], by="ann")
    assert await state(store, dead) is JobState.DEAD
    assert await rows_of(store, *ELSEWHERE) == ELSEWHERE
    assert await claim(store) == []
    assert await store.dead_retry([dead]) == [dead]
    assert await rows_of(store, "dead", "cancelled") == {"dead": 0, "cancelled": 0}


@KEYS
async def test_a_dead_letter_keeps_its_job_and_every_error(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    """(001-09)"""
    new = job("mail", key=key, payload='{"to" : 1.0, "é": "\\u00e9"}', priority=5, attempts_max=3)
    await store.enqueue([new])
    accepted = (await store.job(new.id)).job
    for number in (1, 2, 3):
        claimed = await claim_one(store, worker=f"w{number}")
        await store.settle(fail(claimed, delay=1, error=f"boom {number}"), worker=f"w{number}")
        died_at = clock.now()
        clock.advance(1)
    [letter] = (await store.dead_letters()).rows
    assert letter.job == accepted
    assert letter.job.payload == new.payload
    assert [error.error for error in letter.errors] == ["boom 1", "boom 2", "boom 3"]
    assert [error.attempt for error in letter.errors] == [1, 2, 3]
    assert [error.worker for error in letter.errors] == ["w1", "w2", "w3"]
    assert (letter.attempts, letter.died_at) == (3, died_at)
    assert letter.reason == "failed 3 times, the last time: boom 3"
    view = await store.job(new.id)
    assert (view.state, view.job, view.errors) == (JobState.DEAD, accepted, letter.errors)
    assert (view.reason, view.died_at) == (letter.reason, died_at)


@KEYS
async def test_a_dead_letter_says_how_many_of_its_errors_were_not_kept(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    """Failures that do not count as attempts are errors, too. (001-09)"""
    await enqueue(store, job(key=key, attempts_max=23))
    for number in range(1, 26):
        failed = fail(await claim_one(store), delay=1, error=f"boom {number}", counted=number > 2)
        await settle(store, failed)
        clock.advance(1)
    [letter] = (await store.dead_letters()).rows
    assert letter.attempts == 23
    assert [error.error for error in letter.errors] == [f"boom {n}" for n in range(6, 26)]
    assert [error.number for error in letter.errors] == [*range(6, 26)]


@KEYS
async def test_retrying_a_dead_letter_twice_runs_it_once(
    store: Store, other_store: Store, key: str | None
) -> None:
    """(001-10)"""
    dead = await bring_to(store, JobState.DEAD, key=key)
    assert await store.dead_retry([dead, dead]) == [dead]
    assert await store.dead_retry([dead]) == []
    assert await other_store.dead_retry([dead]) == []
    assert ids(await claim(store)) == [dead]
    assert await store.dead_retry([dead]) == []
    assert await claim(other_store) == []


@KEYS
async def test_retried_by_many_at_once_it_runs_once(
    store: Store, other_store: Store, key: str | None
) -> None:
    """(001-10)"""
    dead = await bring_to(store, JobState.DEAD, key=key)
    given = await asyncio.gather(*(one.dead_retry([dead]) for one in [store, other_store] * 4))
    assert [one for some in given for one in some] == [dead]
    assert await run_all(store) == [dead]
    assert await store.dead_retry([dead]) == []
    assert await claim(store) == []


@KEYS
async def test_a_dead_letter_that_is_put_back_has_fresh_attempts(
    store: Store, key: str | None
) -> None:
    [made] = await enqueue(store, job(key=key, attempts_max=2, payload="[1]"))
    accepted = (await store.job(made)).job
    for _ in range(2):
        await settle(store, fail(await claim_one(store), delay=0, error="old"))
    assert await store.dead_retry([made]) == [made]
    view = await store.job(made)
    assert (view.state, view.job, view.errors) == (JobState.WAITING, accepted, ())
    assert (await store.dead_letters()).rows == ()
    for attempt in (1, 2):
        claimed = await claim_one(store)
        assert attempts([claimed]) == [attempt]
        await settle(store, fail(claimed, delay=0, error="new"))
    [letter] = (await store.dead_letters()).rows
    assert [error.error for error in letter.errors] == ["new", "new"]


async def test_a_keyed_dead_letter_goes_to_the_tail_of_a_lane_that_went_on(store: Store) -> None:
    dead, second, third = await enqueue(store, *jobs(3, key="a"))
    await settle(store, bury(await claim_one(store)))
    assert await store.dead_retry([dead]) == [dead]
    assert await run_all(store) == [second, third, dead]


async def test_a_keyed_dead_letter_goes_to_the_head_of_the_lane_that_is_halted_on_it(
    store: Store,
) -> None:
    await store.configure("default", QueueSettings(on_dead=OnDead.HALT))
    made = await enqueue(store, *jobs(3, key="a"))
    await settle(store, bury(await claim_one(store)))
    assert await claim(store) == []
    assert await store.dead_retry([made[0]]) == [made[0]]
    assert await run_all(store) == made


@KEYS
async def test_a_dropped_dead_letter_is_cancelled_for_good(store: Store, key: str | None) -> None:
    dead = await bring_to(store, JobState.DEAD, key=key)
    assert await store.dead_drop([dead, NOWHERE], by="ann") == [dead]
    assert await store.dead_drop([dead], by="ann") == []
    assert await store.dead_retry([dead]) == []
    view = await store.job(dead)
    assert (view.state, view.cancelled_by) == (JobState.CANCELLED, "ann")
    assert view.reason == "dropped by ann"
    assert (await store.dead_letters()).rows == ()
    assert await claim(store) == []


async def test_dead_letters_come_latest_death_first_page_by_page(
    store: Store, clock: ManualClock
) -> None:
    made = []
    for number in range(7):
        key = f"key {number % 2}"
        [one] = await enqueue(store, job(f"kind {number % 3}", key=key, queue=f"q{number % 2}"))
        made.append(one)
    claims = await claim(store, queue="q0") + await claim(store, queue="q1")
    # Bury the youngest job first, so that the order of deaths is not the order of ids.
    buried = []
    while claims:
        for claimed in sorted(claims, key=lambda one: one.jobs[0].id, reverse=True):
            await settle(store, bury(claimed))
            buried.append(claimed.jobs[0].id)
            clock.advance(1)
        claims = await claim(store, queue="q0") + await claim(store, queue="q1")
    assert sorted(buried) == sorted(made)
    assert buried != sorted(buried)
    buried.reverse()
    for rows_max in (1, 2, 3, 7, 100):
        assert job_ids(await page_through(store.dead_letters, rows_max)) == buried
    where = {one: number for number, one in enumerate(made)}
    for rows_max in (1, 100):
        found = job_ids(await page_through(store.dead_letters, rows_max, queue="q1"))
        assert found == [one for one in buried if where[one] % 2 == 1]
        found = job_ids(await page_through(store.dead_letters, rows_max, kind="kind 1"))
        assert found == [one for one in buried if where[one] % 3 == 1]
        found = job_ids(await page_through(store.dead_letters, rows_max, key="key 0"))
        assert found == [one for one in buried if where[one] % 2 == 0]
    assert (await store.dead_letters(queue="q0", key="key 1")).rows == ()

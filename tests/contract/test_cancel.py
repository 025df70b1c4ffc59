"""Cancel: a job that is not running is taken out of the line, and the line closes up."""

from __future__ import annotations

import pytest

from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.model.lane import OnDead, QueueSettings
from inturn.store.store import Store
from tests.contract.support import (
    bring_to,
    broken,
    bury,
    claim,
    claim_one,
    done,
    enqueue,
    ids,
    job,
    jobs,
    queue_status,
    run_all,
    settle,
    state,
    states,
    stored,
)

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])


@KEYS
@pytest.mark.parametrize(
    "wanted", [JobState.WAITING, JobState.BLOCKED, JobState.SCHEDULED, JobState.RETRYING]
)
async def test_a_job_that_is_not_running_is_cancelled(
    store: Store, clock: ManualClock, key: str | None, wanted: JobState
) -> None:
    made = await bring_to(store, wanted, key=key)
    before = (await store.job(made)).job
    assert await store.cancel(made, by="ann") is JobState.CANCELLED
    view = await store.job(made)
    assert (view.state, view.job, view.cancelled_by) == (JobState.CANCELLED, before, "ann")
    assert view.reason == "cancelled by ann"
    assert await store.cancel(made, by="ben") is JobState.CANCELLED
    assert (await store.job(made)).cancelled_by == "ann"
    clock.advance(100_000)
    await store.reclaim()
    assert await claim(store) == []
    status = await queue_status(store)
    assert (status.waiting, status.blocked, status.scheduled, status.retrying) == (0, 0, 0, 0)
    [later] = await enqueue(store, job(key=key))
    assert await run_all(store) == [later]


@KEYS
@pytest.mark.parametrize("wanted", [JobState.RUNNING, JobState.DONE, JobState.DEAD])
async def test_it_is_too_late_to_cancel(store: Store, key: str | None, wanted: JobState) -> None:
    made = await bring_to(store, wanted, key=key)
    before, rows = await store.job(made), await stored(store)
    assert await store.cancel(made, by="ann") is wanted
    assert await store.job(made) == before
    assert await stored(store) == rows


@KEYS
@pytest.mark.parametrize("gone", [(0,), (3,), (0, 1), (1, 3), (0, 1, 2, 3)])
async def test_whichever_are_cancelled_the_others_run_in_order(
    store: Store, key: str | None, gone: tuple[int, ...]
) -> None:
    made = await enqueue(store, *jobs(4, key=key))
    for number in gone:
        assert await store.cancel(made[number], by="ann") is JobState.CANCELLED
        assert await store.check() == []
    left = [one for number, one in enumerate(made) if number not in gone]
    assert (await queue_status(store)).waiting == len(left)
    assert await run_all(store, jobs_max=3) == left
    assert await states(store, left) == [JobState.DONE] * len(left)
    assert await states(store, [made[number] for number in gone]) == [JobState.CANCELLED] * len(
        gone
    )
    [later] = await enqueue(store, job(key=key))
    assert await run_all(store) == [later]


async def test_a_keyed_run_is_cut_before_a_cancelled_job(store: Store) -> None:
    made = await enqueue(store, *jobs(5, key="a"))
    await store.cancel(made[2], by="ann")
    [claimed] = await claim(store)
    assert ids([claimed]) == made[:2]
    await settle(store, done([claimed]))
    [claimed] = await claim(store)
    assert ids([claimed]) == made[3:]


@pytest.mark.parametrize("length", [5, 700])
async def test_an_open_run_leaves_cancelled_jobs_out(store: Store, length: int) -> None:
    made = await enqueue(store, *jobs(length))
    gone = {made[1], made[length - 2]}
    for one in gone:
        await store.cancel(one, by="ann")
    claims = await claim(store, 1_000)
    assert ids(claims) == [one for one in made if one not in gone]
    await settle(store, done(claims))
    assert (await queue_status(store)).running == 0


async def test_a_job_behind_a_leased_run_can_be_cancelled(store: Store) -> None:
    made = await enqueue(store, *jobs(4, key="a"))
    claims = await claim(store, 2)
    assert await store.cancel(made[2], by="ann") is JobState.CANCELLED
    await settle(store, done(claims))
    assert await run_all(store) == [made[3]]


async def test_jobs_behind_a_halted_head_can_be_cancelled(store: Store) -> None:
    await store.configure("default", QueueSettings(on_dead=OnDead.HALT))
    made = await enqueue(store, *jobs(3, key="a"))
    await settle(store, bury(await claim_one(store)))
    assert await store.cancel(made[0], by="ann") is JobState.DEAD
    assert await store.cancel(made[1], by="ann") is JobState.CANCELLED
    assert await claim(store) == []
    assert await store.skip_lane("default", "a") == made[0]
    assert await run_all(store) == [made[2]]


@KEYS
async def test_a_cancel_that_breaks_off_leaves_the_job_waiting(
    store: Store, key: str | None
) -> None:
    made = await enqueue(store, *jobs(2, key=key))
    async with broken(store, "cancelled", "insert"):
        with pytest.raises(Exception, match="broken by a test"):
            await store.cancel(made[0], by="ann")
    assert await state(store, made[0]) is JobState.WAITING
    assert await run_all(store) == made

"""Reads: a job, lists of jobs, workers and statistics, as they are."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.model.worker import DURATION_BOUNDS_SECONDS, WorkerView
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Release, Retry, Verdict
from inturn.store.store import Store
from tests.contract.support import (
    NOWHERE,
    bring_to,
    claim,
    claim_one,
    done,
    enqueue,
    job,
    job_ids,
    jobs,
    page_through,
    settle,
)

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])


@KEYS
@pytest.mark.parametrize("wanted", list(JobState))
async def test_a_job_says_where_it_is(
    store: Store, other_store: Store, wanted: JobState, key: str | None
) -> None:
    made = await bring_to(store, wanted, key=key)
    view = await other_store.job(made)
    assert (view.state, view.job.id, view.job.key) == (wanted, made, key)
    if wanted in (JobState.SCHEDULED, JobState.RETRYING):
        assert view.run_at is not None
        assert view.run_at > view.job.enqueued_at
    if wanted is JobState.RUNNING:
        assert (view.worker, view.attempt) == ("w1", 1)
    else:
        assert (view.worker, view.leased_until) == (None, None)
    assert (view.died_at is not None) is (wanted is JobState.DEAD)
    assert (view.cancelled_by is not None) is (wanted is JobState.CANCELLED)
    assert bool(view.waits_for) is (wanted is JobState.BLOCKED)
    assert len(view.errors) == (1 if wanted in (JobState.RETRYING, JobState.DEAD) else 0)
    assert not view.suspect


@KEYS
async def test_a_waiting_job_knows_how_many_are_ahead(store: Store, key: str | None) -> None:
    made = await enqueue(store, *jobs(4, key=key))
    assert [(await store.job(one)).ahead for one in made] == [0, 1, 2, 3]
    assert [(await store.job(one)).position for one in made] == [1, 2, 3, 4]
    await settle(store, done([await claim_one(store)]))
    assert [(await store.job(one)).ahead for one in made[1:]] == [0, 1, 2]


async def test_jobs_are_listed_by_every_state_page_by_page(store: Store) -> None:
    made: dict[JobState, list[UUID]] = {}
    for number in range(5):
        for one in JobState:
            # A queue for each, so that none stands in another's way.
            key = "a" if number % 2 else None
            queue = f"{one} {number}"
            made.setdefault(one, []).append(await bring_to(store, one, queue=queue, key=key))
    for view in (await store.jobs(state=JobState.BLOCKED)).rows:
        made[JobState.WAITING] += view.waits_for
    for wanted, expected in made.items():
        for rows_max in (1, 3, 100):
            rows = await page_through(store.jobs, rows_max, state=wanted)
            assert job_ids(rows) == sorted(expected, reverse=True)
            assert {row.state for row in rows} == {wanted}
        for row in rows:
            assert row == await store.job(row.job.id)


async def test_jobs_that_are_finished_are_left_out_when_asked(store: Store) -> None:
    made = {await bring_to(store, one, queue=f"{one}"): one for one in JobState}
    rows = await page_through(store.jobs, 2, finished=False)
    gone = {id for id, state in made.items() if state in (JobState.DONE, JobState.CANCELLED)}
    assert set(job_ids(rows)) & set(made) == set(made) - gone
    assert job_ids(rows) == job_ids((await store.jobs(finished=False)).rows)


async def test_jobs_are_found_by_the_end_of_their_ids(store: Store) -> None:
    ids = [await bring_to(store, one, queue=f"{one}") for one in JobState]
    for id in ids:
        assert await store.jobs_ending(id.hex[-8:].upper()) == [id]
        assert await store.jobs_ending(id.hex[-13:]) == [id]
    assert await store.jobs_ending(NOWHERE.hex) == []


async def test_jobs_are_listed_by_queue_kind_and_key(store: Store) -> None:
    batch = [
        job(kind, queue=queue, key=key)
        for queue in ("q1", "q2")
        for kind in ("mail", "push")
        for key in (None, "a", "b")
    ]
    await store.enqueue(batch)
    for filters in (
        {"queue": "q1"},
        {"kind": "mail"},
        {"key": "a"},
        {"queue": "q2", "kind": "push"},
        {"queue": "q1", "key": "b"},
        {"kind": "push", "key": "b", "queue": "q2"},
        {"queue": "q3"},
        {"key": "nobody"},
    ):
        expected = [
            one.id
            for one in reversed(batch)
            if all(getattr(one, name) == value for name, value in filters.items())
        ]
        assert job_ids(await page_through(store.jobs, 2, **filters)) == expected
        waiting = await page_through(store.jobs, 100, state=JobState.WAITING, **filters)
        assert job_ids(waiting) == expected


async def test_workers_are_known_by_their_beat(
    store: Store, other_store: Store, clock: ManualClock
) -> None:
    assert await store.workers() == []
    first = WorkerView(
        id="w1", host="h'1", pid=12, version="0.1", queues=("q", "é"), kinds=("mail",), running=2
    )
    second = WorkerView(id="w2", host="h2", pid=2**31 + 5, version="0.1")
    start = clock.now()
    await store.beat(first)
    clock.advance(1)
    await other_store.beat(second)
    assert [one.id for one in await store.workers()] == ["w2", "w1"]
    clock.advance(1)
    await store.beat(WorkerView(id="w1", host="h'1", pid=12, version="0.2", running=0))
    one, two = await store.workers()
    assert (one.id, one.version, one.running) == ("w1", "0.2", 0)
    assert (one.queues, one.kinds) == ((), ())
    assert (one.started_at, one.seen_at) == (start, clock.now())
    assert (two.host, two.pid) == ("h2", 2**31 + 5)
    assert two.seen_at == start + timedelta(seconds=1)


async def test_a_worker_that_left_is_not_listed_and_keeps_its_leases(
    store: Store, other_store: Store
) -> None:
    for name in ("w1", "w2"):
        await store.beat(WorkerView(id=name, host="h", pid=1, version="v"))
    [made] = await enqueue(store, *jobs(1))
    [claimed] = await claim(store)
    await store.leave("w1")
    await store.leave("w1")
    await store.leave("nobody")
    assert [one.id for one in await other_store.workers()] == ["w2"]
    assert (await store.job(made)).worker == "w1"
    await settle(store, done([claimed]))


async def test_a_duty_is_held_by_one_worker_until_its_time_is_over_or_it_leaves(
    store: Store, other_store: Store, clock: ManualClock
) -> None:
    for name in ("w1", "w2"):
        await store.beat(WorkerView(id=name, host="h", pid=1, version="v"))

    async def holders() -> dict[str, tuple[str, ...]]:
        return {one.id: one.duties for one in await other_store.workers()}

    assert await store.hold("sweep", worker="w1", seconds=30)
    assert await store.hold("count", worker="w1", seconds=30)
    assert not await other_store.hold("sweep", worker="w2", seconds=30)
    clock.advance(20)
    assert await store.hold("sweep", worker="w1", seconds=30), "prolonged"
    clock.advance(20)
    assert not await other_store.hold("sweep", worker="w2", seconds=30)
    assert await holders() == {"w1": ("sweep",), "w2": ()}
    assert await other_store.hold("count", worker="w2", seconds=0.5), "its time is over"
    await store.leave("w1")
    assert await other_store.hold("sweep", worker="w2", seconds=30)
    assert not await store.hold("sweep", worker="w1", seconds=30)
    assert await holders() == {"w2": ("count", "sweep")}
    await store.leave("w2")


async def test_only_one_of_many_that_ask_at_once_holds_a_duty(
    store: Store, other_store: Store
) -> None:
    asked = [
        one.hold("sweep", worker=f"{n}{name}", seconds=30)
        for n in range(10)
        for name, one in (("a", store), ("b", other_store))
    ]
    assert sum(await asyncio.gather(*asked)) == 1


async def test_what_was_settled_is_counted_per_kind_and_minute(
    store: Store, clock: ManualClock
) -> None:
    start = clock.now()
    await enqueue(store, *jobs(4, "mail"), *jobs(2, "push", key="a"), job(queue="other"))
    claims = await claim(store)
    said: list[Verdict] = [Done(), Retry(60, "boom"), Bury("hopeless"), Release()]
    durations = [0.5, 2.0, 0.0, 9.0]
    for claimed in claims:
        if claimed.lease.key is None:
            outcomes = [
                Outcome(leased, verdict, seconds)
                for leased, verdict, seconds in zip(claimed.jobs, said, durations, strict=True)
            ]
            await settle(store, [Settlement(claimed.lease, outcomes)])
        else:
            for leased in claimed.jobs:
                await settle(store, [Settlement(claimed.lease, [Outcome(leased, Done(), 1e9)])])
    mail, push = sorted(await store.stats("default", since=start), key=lambda one: one.kind)
    assert (mail.kind, mail.minute_at, push.kind) == ("mail", start, "push")
    assert (mail.done, mail.retried, mail.buried, mail.released) == (1, 1, 1, 1)
    assert mail.seconds_sum == 2.5
    assert len(mail.durations) == len(DURATION_BOUNDS_SECONDS) + 1
    assert sum(mail.durations) == 3
    assert (push.done, push.durations[-1]) == (2, 2)
    assert await store.stats("other", since=start) == []
    assert await store.stats("nowhere", since=start) == []


async def test_statistics_are_kept_per_minute_and_folded_by_a_prune(
    store: Store, clock: ManualClock
) -> None:
    start = clock.now()
    for _ in range(6):
        await enqueue(store, job())
        await settle(store, done(await claim(store)))
        clock.advance(20)
    before = sorted(await store.stats("default", since=start), key=lambda one: one.minute_at)
    assert [one.minute_at for one in before] == [start, start + timedelta(minutes=1)]
    assert [one.done for one in before] == [3, 3]
    await store.prune()
    after = sorted(await store.stats("default", since=start), key=lambda one: one.minute_at)
    assert after == before
    later = start + timedelta(minutes=1)
    assert [one.done for one in await store.stats("default", since=later)] == [3]

"""Limits of a queue over all workers: how many jobs run at once, and how many start in a time.

Promise P18 of ARCHITECTURE.md.
"""

from __future__ import annotations

from datetime import timedelta

from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.model.lane import QueueSettings
from inturn.store.store import Store
from tests.contract.support import (
    claim,
    done,
    enqueue,
    fail,
    ids,
    job,
    jobs,
    queue_status,
    release,
    settle,
)

TWO = QueueSettings(running_max=2)
THREE_A_MINUTE = QueueSettings(rate=3, rate_seconds=60.0)


async def test_no_more_jobs_run_than_a_queue_allows_whoever_claims(
    store: Store, other_store: Store
) -> None:
    """(B-01)"""
    await store.configure("default", TWO)
    made = await enqueue(store, *jobs(5))
    first = await claim(store, 1)
    second = await claim(other_store, 10, worker="w2")
    assert ids([*first, *second]) == made[:2]
    assert await claim(store) == []
    assert await claim(other_store, worker="w2") == []
    await settle(store, done(first))
    assert ids(await claim(other_store, 10, worker="w2")) == [made[2]]
    assert await store.check() == []


async def test_a_turn_takes_the_place_that_it_frees(store: Store) -> None:
    await store.configure("default", TWO)
    made = await enqueue(store, *jobs(4))
    [claimed] = await claim(store)
    turned = await store.turn(done([claimed]), "default", jobs_max=10, worker="w1")
    assert ids(turned) == made[2:]
    assert await claim(store) == []


async def test_retries_keyed_jobs_and_suspects_count_too(store: Store, clock: ManualClock) -> None:
    await store.configure("default", TWO)
    await enqueue(store, job(), *jobs(2, key="a"), *jobs(2, key="b"))
    claims = await claim(store)
    assert len(ids(claims)) == 2
    clock.advance(31)
    await store.reclaim()
    suspects = await claim(store, suspects_max=10)
    assert len(suspects) == 2
    assert await claim(store, suspects_max=10) == []
    await settle(store, fail(suspects[0], delay=10.0))
    clock.advance(11)
    assert len(ids(await claim(store))) == 1
    assert await claim(store) == []


async def test_a_lease_that_ran_out_keeps_its_places_until_it_is_taken_back(
    store: Store, clock: ManualClock
) -> None:
    await store.configure("default", TWO)
    await enqueue(store, *jobs(4))
    assert len(ids(await claim(store))) == 2
    clock.advance(31)
    assert await claim(store, worker="w2") == []
    await store.reclaim()
    assert len(ids(await claim(store, worker="w2", suspects_max=2))) == 2


async def test_no_more_jobs_start_within_any_window_than_a_rate_allows(
    store: Store, other_store: Store, clock: ManualClock
) -> None:
    """(B-01)"""
    await store.configure("default", THREE_A_MINUTE)
    await enqueue(store, *jobs(20))
    started = []
    begun = clock.now()
    for step in range(40):
        one = store if step % 2 else other_store
        claims = await claim(one, 1 + step % 2, worker=f"w{step % 2}")
        started += [clock.now() for _ in ids(claims)]
        await settle(one, done(claims))
        clock.advance(7)
    for at in started:
        within = [other for other in started if at <= other < at + timedelta(seconds=60)]
        assert len(within) <= 3
    assert len(started) >= 3 * int((clock.now() - begun).total_seconds() // 63)
    assert await store.check() == []


async def test_a_place_of_a_rate_comes_back_a_moment_after_its_window_has_passed(
    store: Store, clock: ManualClock
) -> None:
    """A quarter of a second, which handlers may start late without sharing a window."""
    await store.configure("default", THREE_A_MINUTE)
    await enqueue(store, *jobs(9))
    assert len(ids(await claim(store, 1))) == 1
    clock.advance(59)
    assert len(ids(await claim(store))) == 2
    clock.advance(1.24)
    assert await claim(store) == []
    clock.advance(0.01)
    assert len(ids(await claim(store))) == 1
    assert await claim(store) == []
    clock.advance(59)
    assert len(ids(await claim(store))) == 2


async def test_a_place_is_free_however_the_job_left_it(store: Store, clock: ManualClock) -> None:
    await store.configure("default", QueueSettings(running_max=1))
    await enqueue(store, *jobs(3))
    for leave in (fail, lambda one: release([one]), lambda one: done([one])):
        [claimed] = await claim(store)
        assert await claim(store) == []
        await settle(store, leave(claimed))
    assert len(await claim(store)) == 1


async def test_limits_hold_as_soon_as_they_are_set_and_no_longer_than_that(store: Store) -> None:
    await enqueue(store, *jobs(9))
    await claim(store, 3)
    await store.configure("default", TWO)
    assert await claim(store) == []
    await store.configure("default", QueueSettings(running_max=4))
    assert len(ids(await claim(store))) == 1
    await store.configure("default", QueueSettings())
    assert len(ids(await claim(store))) == 5
    assert await store.check() == []


async def test_a_claim_takes_one_job_of_a_key_from_a_queue_with_limits(store: Store) -> None:
    await store.configure("default", QueueSettings(running_max=10))
    a, *_ = await enqueue(store, *jobs(3, key="a"))
    b, *_ = await enqueue(store, *jobs(3, key="b"))
    assert ids(await claim(store)) == [a, b]


async def test_status_and_explain_say_that_a_queue_waits_for_its_limit(
    store: Store, clock: ManualClock
) -> None:
    await store.configure("default", TWO)
    *_, last = await enqueue(store, *jobs(3))
    assert (await queue_status(store)).limit_reached is None
    claims = await claim(store)
    reached = "2 of its jobs run, and at most 2 may"
    assert (await queue_status(store)).limit_reached == reached
    assert reached in await store.explain(last)
    await settle(store, done(claims))
    await store.configure("default", QueueSettings(rate=2, rate_seconds=60.0))
    await enqueue(store, *jobs(2))
    assert len(ids(await claim(store))) == 2
    reached = "2 of its jobs started within 60 s, and at most 2 may"
    assert (await queue_status(store)).limit_reached == reached
    assert reached in await store.explain((await enqueue(store, job()))[0])
    clock.advance(60.25)
    assert (await queue_status(store)).limit_reached is None


async def test_with_no_replay_a_claim_takes_one_job_of_a_key(store: Store) -> None:
    """(B-06)"""
    await store.configure("default", QueueSettings(replay="none"))  # type: ignore[arg-type]
    first, second, third = await enqueue(store, *jobs(3, key="a"))
    plain = await enqueue(store, *jobs(2))
    claims = await claim(store)
    assert ids(claims) == [first, *plain]
    assert await claim(store) == []
    [keyed] = [one for one in claims if one.lease.key == "a"]
    assert ids(await store.turn(done([keyed]), "default", jobs_max=9, worker="w1")) == [second]
    assert (await store.job(third)).state is JobState.WAITING

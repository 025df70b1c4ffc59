"""Each check alone finds what it is for: without it, nothing would be said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.model.lane import OnDead, QueueSettings
from inturn.store.postgres import checks as postgres_checks
from inturn.store.protocol import Store
from inturn.store.sqlite import check as sqlite_checks
from tests.contract.support import (
    bring_to,
    bury,
    claim,
    claim_one,
    enqueue,
    fail,
    is_postgres,
    job,
    jobs,
    raw,
    settle,
)

pytestmark = pytest.mark.corrupts

Corrupt = Callable[[Store], Awaitable[object]]
"""Bring a store into a state and break it; return a word that the sentence about it holds."""


async def sound(store: Store) -> None:
    assert await store.check() == []


async def another_priority(store: Store) -> object:
    await enqueue(store, job(key="a"))
    await sound(store)
    await raw(store, "update @lane set priority = 9")
    return "'a'"


async def a_hole_in_the_line(store: Store) -> object:
    [ticket, *_] = await store.enqueue(jobs(3, key="a"))
    await sound(store)
    await raw(store, "delete from @job where position = 2")
    return f"lane {ticket.lane}"


async def a_round_that_falls(store: Store) -> object:
    [ticket, *_] = await store.enqueue(job(key="a", round=round) for round in (0, 1, 1))
    await sound(store)
    await raw(store, "update @job set round = 5 where position = 2")
    return f"lane {ticket.lane}"


async def a_lease_that_counts_wrongly(store: Store) -> object:
    await enqueue(store, job(key="a"))
    claimed = await claim_one(store)
    await sound(store)
    await raw(store, "update @lease set unsettled = 2")
    return claimed.lease.token


async def a_leased_job_of_an_open_lane_gone(store: Store) -> object:
    [ticket, *_] = await store.enqueue(jobs(2))
    await claim(store, 1)
    await sound(store)
    await raw(store, "delete from @job where position = 1")
    return f"lane {ticket.lane}"


async def a_job_in_two_places(store: Store) -> object:
    made = await bring_to(store, JobState.DEAD)
    await sound(store)
    await raw(
        store,
        "insert into @parked (id, queue, key, kind, payload, priority, round, attempts_max, "
        "enqueued_at, delayed, run_at) select id, queue, key, kind, payload, priority, round, "
        "attempts_max, enqueued_at, false, died_at from @dead",
    )
    return made


async def a_wait_for_nothing(store: Store) -> object:
    made = await bring_to(store, JobState.BLOCKED)
    await sound(store)
    await raw(store, "delete from @waits")
    return made


async def a_retry_with_a_key(store: Store) -> object:
    made = await bring_to(store, JobState.RETRYING)
    await sound(store)
    await raw(store, "update @parked set key = 'a'")
    return made


async def a_job_without_attempts(store: Store) -> object:
    [made] = await enqueue(store, job())
    await sound(store)
    await raw(store, "update @job set attempts_max = 0")
    return made


async def a_mark_beyond_what_is_finished(store: Store) -> object:
    [ticket, *_] = await store.enqueue(jobs(3, key="a"))
    await sound(store)
    await raw(
        store,
        "insert into @mark (lane, position, marked_at) "
        "select lane, position, enqueued_at from @job where position = 2",
    )
    return f"lane {ticket.lane}"


async def a_job_of_no_queue(store: Store) -> object:
    [made] = await enqueue(store, job(delay_seconds=60))
    await store.cancel(made, by="ann")
    await sound(store)
    await raw(store, "update @cancelled set queue = 'nowhere'")
    return "nowhere"


async def a_counter_that_counts_wrongly(store: Store) -> object:
    await enqueue(store, job())
    await sound(store)
    await raw(store, "update @depth set waiting = 7")
    return "waiting 7 and 1"


EVERYWHERE: dict[str, Corrupt] = {
    "check_lanes": another_priority,
    "check_log": a_hole_in_the_line,
    "check_leases": a_lease_that_counts_wrongly,
    "check_runs": a_leased_job_of_an_open_lane_gone,
    "check_places": a_job_in_two_places,
    "check_waits": a_wait_for_nothing,
    "check_parked": a_retry_with_a_key,
    "check_attempts": a_job_without_attempts,
    "check_marks": a_mark_beyond_what_is_finished,
    "check_queues": a_job_of_no_queue,
}
SQLITE: dict[str, Corrupt] = EVERYWHERE | {"check_depth": a_counter_that_counts_wrongly}
POSTGRES: dict[str, Corrupt] = EVERYWHERE | {"check_rounds": a_round_that_falls}


def test_there_is_a_corruption_for_each_check() -> None:
    assert set(SQLITE) == set(sqlite_checks.CHECKS)
    assert set(POSTGRES) == set(postgres_checks.CHECKS)


@pytest.mark.parametrize("name", sorted({*SQLITE, *POSTGRES}))
async def test_a_check_finds_what_no_other_does(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, corruptions = (
        (postgres_checks, POSTGRES) if is_postgres(store) else (sqlite_checks, SQLITE)
    )
    if name not in corruptions:
        pytest.skip("the other store's check")
    word = await corruptions[name](store)
    found = await store.check()
    assert any(str(word) in sentence for sentence in found), found
    others = tuple(one for one in module.CHECKS if one != name)
    monkeypatch.setattr(module, "CHECKS", others)
    assert await store.check() == []


async def names(store: Store, *words: object) -> None:
    """Check says something that holds each of the words."""
    found = await store.check()
    assert any(all(str(word) in said for word in words) for said in found), found


async def test_a_round_that_falls_within_a_lane_is_named(store: Store) -> None:
    await names(store, await a_round_that_falls(store), "round")


async def test_a_tail_that_forgot_its_round_is_named(store: Store) -> None:
    [ticket, *_] = await store.enqueue(job(key="a", round=round) for round in (1, 1))
    await sound(store)
    await raw(store, "update @tail set round = 0")
    await names(store, f"lane {ticket.lane}", "round", "1", "0")


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_a_rank_that_a_lane_does_not_owe_to_its_head_is_named(
    store: Store, key: str | None
) -> None:
    [ticket] = await store.enqueue([job(key=key, priority=3)])
    await sound(store)
    later = "+ interval '2 days'" if is_postgres(store) else "+ 2 * 86400 * 1000000"
    await raw(store, f"update @lane set rank_at = rank_at {later}")
    await names(store, f"lane {ticket.lane}", "rank")


async def test_a_rank_a_moment_too_early_is_named_in_a_keyed_lane(store: Store) -> None:
    [ticket] = await store.enqueue([job(key="a")])
    await sound(store)
    earlier = "- interval '1 millisecond'" if is_postgres(store) else "- 1000"
    await raw(store, f"update @lane set rank_at = rank_at {earlier}")
    await names(store, f"lane {ticket.lane}", "rank")


async def test_a_leased_job_missing_from_a_keyed_lane_is_named(store: Store) -> None:
    [ticket, *_] = await store.enqueue(jobs(3, key="a"))
    await claim(store, 2)
    await sound(store)
    await raw(store, "delete from @job where position = 2")
    await names(store, f"lane {ticket.lane}", "1 ")


async def test_a_lease_of_another_queue_is_named(store: Store) -> None:
    await enqueue(store, job(key="a"), job(queue="other"))
    claimed = await claim_one(store)
    await sound(store)
    await raw(store, "update @lease set queue = 'other'")
    await names(store, claimed.lease.token, "other", "default")


async def test_a_lease_for_one_alone_with_several_is_named(store: Store) -> None:
    await enqueue(store, *jobs(3, key="a"))
    [claimed] = await claim(store)
    await sound(store)
    await raw(store, "update @lease set alone = (1 = 1)")
    await names(store, claimed.lease.token, "alone", "3")


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_suspects_beyond_the_line_are_named(store: Store, key: str | None) -> None:
    [ticket] = await store.enqueue([job(key=key)])
    await sound(store)
    await raw(store, "update @lane set suspect_last = 7")
    await names(store, f"lane {ticket.lane}", "suspect", "7")


async def test_another_key_on_a_lane_is_named(store: Store) -> None:
    """SQLite keeps a lane's key once: it shows where a job that was set aside remembers it."""
    [ticket, second] = await store.enqueue(jobs(2, key="a"))
    await store.cancel(second.id, by="ann")
    await sound(store)
    await raw(store, "update @lane set key = 'b'")
    await names(store, f"lane {ticket.lane}", "'b'")


async def test_another_key_on_a_halted_lane_is_named(store: Store) -> None:
    await store.configure("default", QueueSettings(on_dead=OnDead.HALT))
    [ticket] = await store.enqueue([job(key="a")])
    await settle(store, bury(await claim_one(store)))
    await sound(store)
    await raw(store, "update @lane set key = 'b'")
    await names(store, f"lane {ticket.lane}", "'b'")


@pytest.mark.parametrize("is_leased", [False, True], ids=["waits", "runs"])
async def test_more_attempts_of_a_head_than_it_may_have_are_named(
    store: Store, clock: ManualClock, is_leased: bool
) -> None:
    [ticket] = await store.enqueue([job(key="a", attempts_max=3)])
    await settle(store, fail(await claim_one(store), delay=10))
    if is_leased:
        clock.advance(11)
        await claim_one(store)
    await sound(store)
    await raw(store, f"update @lane set head_attempt = {4 if is_leased else 3}")
    await names(store, f"lane {ticket.lane}", "attempts", "3")


@pytest.mark.parametrize("is_leased", [False, True], ids=["waits", "runs"])
async def test_more_attempts_of_a_parked_job_than_it_may_have_are_named(
    store: Store, clock: ManualClock, is_leased: bool
) -> None:
    [made] = await enqueue(store, job(attempts_max=3))
    await settle(store, fail(await claim_one(store), delay=10))
    if is_leased:
        clock.advance(11)
        await claim_one(store)
    await sound(store)
    await raw(store, f"update @parked set attempt = {4 if is_leased else 3}")
    await names(store, made, "attempts", "3")


@pytest.mark.parametrize(
    ("key", "statement"),
    [
        ("a", "update @lane set head_attempt = -1"),
        ("a", "update @lane set head_crashes = -1"),
        (None, "update @parked set attempt = -1"),
        (None, "update @parked set crashes = -1"),
    ],
)
async def test_fewer_attempts_than_none_are_named(
    store: Store, key: str | None, statement: str
) -> None:
    if not is_postgres(store):
        pytest.skip("SQLite's tables refuse it")
    await bring_to(store, JobState.RETRYING, key=key)
    await sound(store)
    await raw(store, statement)
    await names(store, "-1")

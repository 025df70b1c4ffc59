"""Each check alone finds what it is for: without it, nothing would be said.

Promise P2 of ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.model.lane import OnDead, QueueSettings
from inturn.policy.verdict import Done
from inturn.store.postgres import upkeep as postgres_checks
from inturn.store.sqlite import check as sqlite_checks
from inturn.store.store import Store
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
    verdicts,
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


async def a_start_that_is_not_counted(store: Store) -> object:
    await store.configure("default", QueueSettings(rate=9, rate_seconds=60.0))
    await enqueue(store, job())
    await claim_one(store)
    await sound(store)
    await raw(store, "update @start set jobs = 2")
    return "queue 'default'"


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
    "check_starts": a_start_that_is_not_counted,
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


async def test_a_store_in_the_midst_of_its_work_has_nothing_to_be_named(
    store: Store, clock: ManualClock
) -> None:
    """Leased, retrying, halted, paused, suspects, behind a gate, delayed, blocked, cancelled."""
    await store.configure("halts", QueueSettings(on_dead=OnDead.HALT))
    for queue in ("default", "halts"):
        made = await enqueue(
            store,
            *(job(queue=queue, key=key, round=round) for key in "abcdef" for round in (0, 0, 1)),
            *jobs(4, queue=queue),
            job(queue=queue, delay_seconds=60),
            job(queue=queue, key="a", delay_seconds=1),
        )
        await enqueue(store, job(queue=queue, key="z", after=frozenset({made[6], made[18]})))
        await store.pause(queue, key="f", by="ann")
        await sound(store)
        for one in (made[1], made[4], made[20]):
            await store.cancel(one, by="ann")
            await sound(store)
        await claim(store, 3, queue=queue, lease_seconds=1)
        await sound(store)
        clock.advance(2)
        await store.reclaim()
        await sound(store)
        [failed, buried] = await claim(store, 2, queue=queue, suspects_max=2)
        assert (failed.lease.key, buried.lease.key) == ("a", "b")
        await sound(store)
        await settle(store, fail(failed))
        await sound(store)
        await settle(store, bury(buried))
        await sound(store)
        for claimed in await claim(store, 6, queue=queue):
            await settle(store, [verdicts(claimed, Done())])
            await sound(store)
    await store.prune()
    await sound(store)


async def test_prune_mends_a_stranded_lane(store: Store) -> None:
    """The slow sweep of the design: it must find nothing, ever, and repair it if it does."""
    if not is_postgres(store):
        pytest.skip("with one writer at a time no lane is stranded")
    made = await enqueue(store, *jobs(2, key="a"), *jobs(2))
    await raw(store, "update @lane set active = false, rank_at = null")
    await store.prune()
    await sound(store)
    claims = await claim(store)
    assert sorted(one.id for claimed in claims for one in claimed.jobs) == made

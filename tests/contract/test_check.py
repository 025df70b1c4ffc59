"""Check: each way in which the tables could be broken is named.

Promise P2 of ARCHITECTURE.md.
"""

from __future__ import annotations

import pytest

from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.model.lane import OnDead, QueueSettings
from inturn.store.postgres.store import PostgresStore
from inturn.store.protocol import Store
from tests.contract.support import (
    bring_to,
    bury,
    claim,
    claim_one,
    enqueue,
    fail,
    job,
    jobs,
    raw,
    run_all,
    settle,
)

pytestmark = pytest.mark.corrupts


async def names_a_fault(store: Store, *one_of: object) -> None:
    """Check says something, each time a sentence, and names the thing that is broken."""
    found = await store.check()
    assert found
    assert all(sentence == sentence.strip() and " " in sentence for sentence in found)
    assert any(str(word) in sentence for word in one_of for sentence in found), found


async def sound(store: Store) -> None:
    """The tables hold together, so what check finds next comes from the corruption."""
    assert await store.check() == []


async def test_a_stranded_lane_is_named(store: Store) -> None:
    [ticket] = await store.enqueue([job(key="lost")])
    await sound(store)
    await raw(store, "update @lane set active = false, rank_at = null")
    await names_a_fault(store, "lost", f"lane {ticket.lane}")


async def test_a_stranded_open_lane_is_named(store: Store) -> None:
    [ticket] = await store.enqueue([job()])
    await sound(store)
    await raw(store, "update @lane set active = false, rank_at = null")
    await names_a_fault(store, ticket.lane)


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_a_gap_among_the_waiting_is_named(store: Store, key: str | None) -> None:
    [ticket, *_] = await store.enqueue(jobs(3, key=key))
    await sound(store)
    await raw(store, "delete from @job where position = 2")
    await names_a_fault(store, f"lane {ticket.lane}", "'a'")


async def test_a_cursor_beyond_the_end_is_named(store: Store) -> None:
    [ticket] = await store.enqueue([job(key="a")])
    await run_all(store)
    await sound(store)
    await raw(store, "update @tail set last = 0")
    await names_a_fault(store, f"lane {ticket.lane}", "'a'")


async def test_a_lane_under_a_lease_that_is_gone_is_named(store: Store) -> None:
    await enqueue(store, job(key="a"))
    claimed = await claim_one(store)
    await sound(store)
    await raw(store, "delete from @lease")
    await names_a_fault(store, claimed.lease.token, "'a'")


async def test_a_run_under_a_lease_that_is_gone_is_named(store: Store) -> None:
    await enqueue(store, job())
    claimed = await claim_one(store)
    await sound(store)
    await raw(store, "delete from @lease")
    await names_a_fault(store, claimed.lease.token)


async def test_a_parked_job_under_a_lease_that_is_gone_is_named(store: Store) -> None:
    [made] = await enqueue(store, job())
    await settle(store, fail(await claim_one(store), delay=0))
    claimed = await claim_one(store)
    await sound(store)
    await raw(store, "delete from @lease")
    await names_a_fault(store, claimed.lease.token, made)


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_a_lease_that_counts_wrongly_is_named(store: Store, key: str | None) -> None:
    await enqueue(store, *jobs(2, key=key))
    [claimed] = await claim(store)
    await sound(store)
    await raw(store, "update @lease set unsettled = unsettled + 1")
    await names_a_fault(store, claimed.lease.token)


async def test_a_lease_with_nothing_under_it_is_named(store: Store) -> None:
    await enqueue(store, job(key="a"))
    claimed = await claim_one(store)
    await sound(store)
    await raw(store, "update @lane set token = null, cursor = head")
    await names_a_fault(store, claimed.lease.token)


async def test_a_lane_that_could_be_claimed_and_has_no_rank_is_named(store: Store) -> None:
    [ticket] = await store.enqueue([job(key="a")])
    await sound(store)
    await raw(store, "update @lane set rank_at = null")
    await names_a_fault(store, f"lane {ticket.lane}", "'a'")


async def test_runs_that_overlap_are_named(store: Store) -> None:
    [ticket, *_] = await store.enqueue(jobs(4))
    await claim(store, 2)
    await claim(store, 2)
    await sound(store)
    await raw(store, "update @run set last = 3 where first = 1")
    await names_a_fault(store, f"lane {ticket.lane}")


async def test_a_run_beyond_the_cursor_is_named(store: Store) -> None:
    [ticket, *_] = await store.enqueue(jobs(3))
    await claim(store, 1)
    await sound(store)
    await raw(store, "update @run set last = 2")
    await raw(store, "update @lease set unsettled = 2")
    await names_a_fault(store, f"lane {ticket.lane}")


async def test_a_job_in_two_places_is_named(store: Store) -> None:
    made = await bring_to(store, JobState.DEAD)
    await sound(store)
    await raw(
        store,
        "insert into @parked (id, queue, key, kind, payload, priority, round, attempts_max, "
        "enqueued_at, delayed, run_at) select id, queue, key, kind, payload, priority, round, "
        "attempts_max, enqueued_at, false, died_at from @dead",
    )
    await names_a_fault(store, made)


async def test_a_lane_halted_on_a_job_that_is_not_dead_is_named(store: Store) -> None:
    await store.configure("default", QueueSettings(on_dead=OnDead.HALT))
    [ticket] = await store.enqueue([job(key="a")])
    await settle(store, bury(await claim_one(store)))
    await sound(store)
    await raw(store, "delete from @dead")
    await names_a_fault(store, ticket.id, f"lane {ticket.lane}", "'a'")


async def test_a_blocked_job_that_waits_for_nothing_is_named(store: Store) -> None:
    made = await bring_to(store, JobState.BLOCKED)
    await sound(store)
    await raw(store, "delete from @waits")
    await names_a_fault(store, made)


async def test_a_wait_of_a_job_that_is_not_blocked_is_named(store: Store) -> None:
    made = await bring_to(store, JobState.BLOCKED)
    await sound(store)
    await raw(store, "delete from @blocked")
    await names_a_fault(store, made)


async def test_a_wait_for_a_job_that_is_gone_is_named(store: Store) -> None:
    [first] = await enqueue(store, job(delay_seconds=60))
    [made] = await enqueue(store, job(after=frozenset({first})))
    await sound(store)
    await raw(store, "delete from @parked")
    await names_a_fault(store, first, made)


async def test_a_wait_for_a_job_that_is_done_is_named(store: Store) -> None:
    finished = await bring_to(store, JobState.DONE, queue="first")
    [other] = await enqueue(store, job(queue="other"))
    [made] = await enqueue(store, job(after=frozenset({other})))
    await store.reclaim()  # which admits what ended unseen, so that nothing is excused by it
    await sound(store)
    await raw(
        store,
        "update @waits set on_job = (select job.id from @job as job "
        "join @lane as lane on lane.id = job.lane where lane.queue = 'first')",
    )
    await names_a_fault(store, finished, made)


async def test_a_tail_that_is_gone_is_named(store: Store) -> None:
    [ticket] = await store.enqueue([job(key="a")])
    await sound(store)
    await raw(store, "delete from @tail")
    await names_a_fault(store, f"lane {ticket.lane}", "'a'")


async def test_a_tail_of_another_name_is_named(store: Store) -> None:
    if not isinstance(store, PostgresStore):
        pytest.skip("only PostgreSQL keeps a lane's name twice")
    [ticket] = await store.enqueue([job(key="a")])
    await sound(store)
    await raw(store, "update @tail set key = 'b'")
    await names_a_fault(store, f"lane {ticket.lane}", "'b'")


async def test_a_lane_that_does_not_know_of_its_cancelled_jobs_is_named(store: Store) -> None:
    if not isinstance(store, PostgresStore):
        pytest.skip("only PostgreSQL notes in the lane how far positions are cancelled")
    [_, second] = await enqueue(store, *jobs(2, key="a"))
    await store.cancel(second, by="ann")
    await sound(store)
    await raw(store, "update @lane set cancelled_last = 0")
    await names_a_fault(store, "cancelled positions")


async def test_reclaim_mends_a_stranded_lane(store: Store, clock: ManualClock) -> None:
    """The slow sweep of the design: it must find nothing, ever, and repair it if it does."""
    if not isinstance(store, PostgresStore):
        pytest.skip("with one writer at a time no lane is stranded")
    made = await enqueue(store, *jobs(2, key="a"), *jobs(2))
    await raw(store, "update @lane set active = false, rank_at = null")
    for _ in range(3):
        await store.reclaim()
        clock.advance(60)
    await sound(store)
    claims = await claim(store)
    assert sorted(one.id for claimed in claims for one in claimed.jobs) == made

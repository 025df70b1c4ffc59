"""Check: corruptions by hand, column by column, each named by a sentence of its own."""

from __future__ import annotations

from uuid import UUID

import pytest

from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.model.lane import OnDead, QueueSettings
from inturn.policy.verdict import Done
from inturn.store.protocol import Store
from tests.contract.support import (
    bring_to,
    bury,
    claim,
    claim_one,
    done,
    enqueue,
    fail,
    is_postgres,
    job,
    jobs,
    raw,
    run_all,
    settle,
    verdicts,
)

pytestmark = pytest.mark.corrupts


async def sound(store: Store) -> None:
    """The tables hold together, so what check finds next comes from the corruption."""
    assert await store.check() == []


async def names(store: Store, *words: object) -> None:
    """Check says one thing that holds each of the words."""
    found = await store.check()
    assert any(all(str(word) in said for word in words) for said in found), found


@pytest.mark.parametrize("column", ["ready_at", "look_at"])
async def test_a_leased_lane_that_waits_for_a_time_is_named(store: Store, column: str) -> None:
    if column == "look_at" and not is_postgres(store):
        pytest.skip("only PostgreSQL leaves a lane to be looked at later")
    [ticket] = await store.enqueue([job(key="a")])
    claimed = await claim_one(store)
    await sound(store)
    await raw(store, f"update @lane set {column} = (select max(until) from @lease)")
    await names(
        store, f"lane {ticket.lane} ", f"lease {claimed.lease.token} and yet waits for a time"
    )


async def test_a_leased_lane_that_is_not_active_is_named(store: Store) -> None:
    [ticket] = await store.enqueue([job(key="a")])
    claimed = await claim_one(store)
    await sound(store)
    await raw(store, "update @lane set active = false")
    await names(store, f"lane {ticket.lane} ", f"lease {claimed.lease.token} and not active")


async def test_an_idle_lane_that_counts_attempts_is_named(store: Store) -> None:
    if is_postgres(store):
        pytest.skip("PostgreSQL starts to count afresh whenever a lane is roused")
    [ticket] = await store.enqueue([job(key="a")])
    await run_all(store)
    await sound(store)
    await raw(store, "update @lane set head_attempt = 7")
    await names(store, f"lane {ticket.lane} ", "7 attempts", "no head")
    await raw(store, "update @lane set head_attempt = 0, head_crashes = 3")
    await names(store, f"lane {ticket.lane} ", "3 crashes", "no head")


async def a_chain(store: Store, number: int) -> list[UUID]:
    """Make jobs of which each but the first waits for the one before it."""
    chain = await enqueue(store, job(delay_seconds=60))
    for _ in range(number - 1):
        chain += await enqueue(store, job(after=frozenset({chain[-1]})))
    return chain


def literal(store: Store, id: UUID) -> str:
    return f"'{id}'" if is_postgres(store) else f"x'{id.hex}'"


async def test_a_tail_beyond_its_last_jobs_round_is_named(store: Store) -> None:
    [ticket, *_] = await store.enqueue(job(key="a", round=round) for round in (0, 1))
    await sound(store)
    await raw(store, "update @tail set round = 5")
    await names(store, f"lane {ticket.lane} ", "tail at round 5", "of round 1")


async def test_a_tail_without_its_last_job_may_be_of_any_round(
    store: Store, clock: ManualClock
) -> None:
    """A pruned lane remembers its round, and a dead letter that is put back leaves its place."""
    await store.configure("default", QueueSettings(keep_done_seconds=1))
    await store.open_gate("default", 2)
    [*_, dies] = await enqueue(store, *jobs(2, key="a", round=2), job(key="b", round=2))
    for claimed in await claim(store):
        await settle(store, bury(claimed) if claimed.lease.key == "b" else done([claimed]))
    assert await store.dead_retry([dies]) == [dies]
    await sound(store)
    await settle(store, bury(await claim_one(store)))
    await store.pause("default", key="a", by="ann")  # so that a prune leaves the lane
    for _ in range(3):
        clock.advance(10)
        await store.prune()
        await sound(store)
    await enqueue(store, job(key="a"), job(key="b"))
    await sound(store)


@pytest.mark.parametrize(
    "lanes", ["zzz", "", "7", '"x"', '["x"]', '{"a": 1}', "[[1]]", "[1.5]", "null"]
)
async def test_a_list_of_lanes_that_cannot_be_read_is_named(store: Store, lanes: str) -> None:
    if is_postgres(store):
        pytest.skip("PostgreSQL keeps an array")
    await enqueue(store, *jobs(2, key="a"))
    [claimed] = await claim(store)
    await sound(store)
    await raw(store, f"update lease set lanes = '{lanes}'")
    await names(store, f"lease {claimed.lease.token} names its lanes", f"'{lanes}'")


UNREADABLE = [
    "zzz",
    "",
    "7",
    '"x"',
    '["x"]',
    '{"a": 1}',
    "[1]",
    "[[1]]",
    '[["a", "b"]]',
    "[[1, 1], [1, 1]]",
    "[[1, 1], [2, 2]]",
    "[[3, 3], [1, 1]]",
    "[[2, 1]]",
]


@pytest.mark.parametrize("settled", UNREADABLE)
async def test_settled_positions_that_cannot_be_read_are_named(store: Store, settled: str) -> None:
    if is_postgres(store):
        pytest.skip("PostgreSQL keeps a multirange")
    [ticket, second, _] = await store.enqueue(jobs(3))
    [claimed] = await claim(store)
    await settle(store, bury(claimed))  # so that the run is asked whether a dead letter is in it,
    await enqueue(store, job(key="a", after=frozenset({second.id})))  # … and what is waited for
    await sound(store)
    await raw(store, f"update run set settled = '{settled}'")
    await names(store, f"positions 1 to 3 of lane {ticket.lane} ", "ranges", f"'{settled}'")


async def test_settled_positions_of_no_run_are_named(store: Store) -> None:
    [ticket, *_] = await store.enqueue(jobs(3))
    [claimed] = await claim(store)
    await settle(store, [verdicts(claimed, Done())])
    await sound(store)
    settled = "{[5, 6)}" if is_postgres(store) else "[[5, 5]]"
    await raw(store, f"update @run set settled = '{settled}'")
    await names(store, f"lane {ticket.lane}", "settled that are not", "5")


async def test_a_run_that_is_settled_and_still_there_is_named(store: Store) -> None:
    [ticket, *_] = await store.enqueue(jobs(2))
    await claim(store)
    await sound(store)
    settled = "{[1, 3)}" if is_postgres(store) else "[[1, 2]]"
    await raw(store, f"update @run set settled = '{settled}'")
    await names(store, f"lane {ticket.lane}", "settled and still")


async def test_a_leased_job_that_is_gone_beside_a_settled_one_is_named(store: Store) -> None:
    """The settled job, which is still there, does not stand in for the one that is gone."""
    [ticket, *_] = await store.enqueue(jobs(3))
    [claimed] = await claim(store)
    await settle(store, [verdicts(claimed, Done())])
    await sound(store)
    await raw(store, "delete from @job where position = 2")
    await names(store, f"1 to 3 of lane {ticket.lane}", "lost" if is_postgres(store) else "gone")


@pytest.mark.parametrize(
    ("state", "table"),
    [
        (JobState.DONE, "job"),
        (JobState.SCHEDULED, "parked"),
        (JobState.BLOCKED, "blocked"),
        (JobState.DEAD, "dead"),
        (JobState.CANCELLED, "cancelled"),
    ],
)
async def test_a_job_that_may_have_no_attempt_is_named(
    store: Store, state: JobState, table: str
) -> None:
    made = await bring_to(store, state)
    await sound(store)
    await raw(store, f"update @{table} set attempts_max = 0")
    await names(store, f"job {made}", "may have 0 attempts, and none has fewer")


@pytest.mark.parametrize("column", ["attempt", "crashes"])
async def test_a_delayed_job_that_counts_attempts_is_named(store: Store, column: str) -> None:
    made = await bring_to(store, JobState.SCHEDULED)
    await sound(store)
    await raw(store, f"update @parked set {column} = 2")
    await names(store, f"job {made} is delayed", "2 " + column)


@pytest.mark.parametrize("column", ["key", "queue"])
async def test_another_name_on_the_dead_letter_of_a_halted_lane_is_named(
    store: Store, column: str
) -> None:
    await store.configure("default", QueueSettings(on_dead=OnDead.HALT))
    await store.configure("other", QueueSettings())
    [ticket] = await store.enqueue([job(key="a")])
    await settle(store, bury(await claim_one(store)))
    await sound(store)
    await raw(store, f"update @dead set {column} = 'other'")
    await names(store, f"lane {ticket.lane} ", f"halted on job {ticket.id}", "'other'")


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_a_cancelled_job_whose_cancelling_was_lost_is_named(
    store: Store, key: str | None
) -> None:
    """SQLite misses it among its counters, PostgreSQL knows the last such position of a lane."""
    [_, second, _] = await enqueue(store, *jobs(3, key=key))
    await store.cancel(second, by="ann")
    await sound(store)
    await raw(store, "delete from @cancelled")
    await names(store, "position 2 is the last that is cancelled" if is_postgres(store) else "3")


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

"""Rounds and gates: no job of a round runs before all of the rounds before it are finished.

Promise P8 of ARCHITECTURE.md.
"""

from __future__ import annotations

import pytest

from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.model.lane import Gate, LaneState, OnDead, QueueSettings
from inturn.store.store import Store
from tests.contract.support import (
    bring_to,
    bury,
    claim,
    claim_one,
    done,
    enqueue,
    fail,
    ids,
    job,
    jobs,
    lane,
    queue_status,
    run_all,
    settle,
    state,
)

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
STAYS = Gate(round=0, advanced=False, unfinished=True, exhausted=False)


async def test_no_job_of_a_later_round_is_claimed_before_the_gate_opens(
    store: Store, other_store: Store
) -> None:
    """(002-03)"""
    rounds = {}
    for number in (2, 0, 1, 3):
        for key in (None, f"key {number}"):
            [made] = await enqueue(store, job(round=number, key=key, priority=10 * number))
            rounds[made] = number
    for number in (0, 1, 2, 3):
        claims = await claim(other_store)
        assert [rounds[one] for one in ids(claims)] == [number] * 2
        assert await claim(store) == []
        gate = await store.advance_gate("default")
        assert gate == Gate(round=number, advanced=False, unfinished=True, exhausted=False)
        await settle(store, done(claims))
        assert await claim(store) == []
        gate = await store.advance_gate("default")
        if number < 3:
            assert gate == Gate(round=number + 1, advanced=True, unfinished=False, exhausted=False)
        else:
            assert gate == Gate(round=3, advanced=False, unfinished=False, exhausted=True)


@KEYS
@pytest.mark.parametrize(
    "between",
    [
        JobState.WAITING,
        JobState.RUNNING,
        JobState.RETRYING,
        JobState.SCHEDULED,
        JobState.BLOCKED,
    ],
)
async def test_a_round_never_advances_while_a_job_is_between_states(
    store: Store, key: str | None, between: JobState
) -> None:
    """(002-12)"""
    held = await bring_to(store, between, key=key)
    [later] = await enqueue(store, job(round=1))
    stays = await store.advance_gate("default")
    assert stays == STAYS
    assert stays.unfinished is True
    assert await state(store, held) is between
    assert await state(store, later) is JobState.WAITING
    assert later not in ids(await claim(store))


@KEYS
async def test_a_reclaimed_job_keeps_its_round_open(
    store: Store, clock: ManualClock, key: str | None
) -> None:
    """(002-12)"""
    await enqueue(store, job(key=key))
    [later] = await enqueue(store, job(round=1))
    await claim(store)
    clock.advance(31)
    assert await store.advance_gate("default") == STAYS
    await store.reclaim()
    assert await store.advance_gate("default") == STAYS
    claims = await claim(store)
    assert later not in ids(claims)
    await settle(store, fail(claims[0], delay=5))
    assert await store.advance_gate("default") == STAYS
    clock.advance(5)
    claims = await claim(store)
    assert await store.advance_gate("default") == STAYS
    await settle(store, done(claims))
    assert (await store.advance_gate("default")).advanced


async def test_a_half_settled_run_keeps_its_round_open(store: Store) -> None:
    """(002-12)"""
    await enqueue(store, *jobs(3), *jobs(3, key="a"), job(round=1))
    claims = await claim(store)
    await settle(store, done(claims[:1]))
    gate = await store.advance_gate("default")
    assert (gate.round, gate.advanced, gate.unfinished) == (0, False, True)
    await settle(store, done(claims[1:]))
    assert (await store.advance_gate("default")).advanced


async def test_a_job_that_waits_for_one_of_its_round_keeps_it_open(store: Store) -> None:
    """(002-12)"""
    first = job()
    await store.enqueue([first, job(after=frozenset({first.id})), job(round=1)])
    claims = await claim(store)
    assert (await store.advance_gate("default")).unfinished
    await settle(store, done(claims))
    assert await store.advance_gate("default") == STAYS
    await run_all(store)
    assert (await store.advance_gate("default")).advanced


@KEYS
async def test_dead_letters_hold_a_round_where_they_halt_and_only_there(
    store: Store, key: str | None
) -> None:
    await store.configure("default", QueueSettings(on_dead=OnDead.HALT))
    [dead] = await enqueue(store, job(key=key))
    await enqueue(store, job(round=1))
    await settle(store, bury(await claim_one(store)))
    gate = await store.advance_gate("default")
    assert (gate.advanced, gate.exhausted) == (False, False)
    assert gate.unfinished
    await store.dead_drop([dead], by="ann")
    assert (await store.advance_gate("default")).advanced


@KEYS
async def test_where_dead_letters_are_skipped_the_round_goes_on(
    store: Store, key: str | None
) -> None:
    await enqueue(store, job(key=key), job(round=1))
    await settle(store, bury(await claim_one(store)))
    assert await store.advance_gate("default") == Gate(
        round=1, advanced=True, unfinished=False, exhausted=False
    )


async def test_the_gate_advances_to_the_next_round_that_has_jobs(store: Store) -> None:
    await enqueue(store, job(round=7), job(round=1_000, key="a"))
    assert (await store.advance_gate("default")).round == 7
    await run_all(store)
    assert (await store.advance_gate("default")).round == 1_000
    await run_all(store)
    gate = await store.advance_gate("default")
    assert gate == Gate(round=1_000, advanced=False, unfinished=False, exhausted=True)
    assert (await queue_status(store)).gate == 1_000


async def test_a_gate_opens_as_far_as_asked_and_never_closes(store: Store) -> None:
    made = await enqueue(store, *(job(round=number) for number in range(5)))
    assert await store.open_gate("default", 2) == 2
    assert sorted(ids(await claim(store))) == made[:3]
    assert await store.open_gate("default", 1) == 2
    assert await store.open_gate("default", 2) == 2
    assert await claim(store) == []
    assert await store.open_gate("default", 9) == 9
    assert sorted(ids(await claim(store))) == made[3:]


async def test_the_lowest_open_round_is_first_whatever_the_priority(store: Store) -> None:
    await store.open_gate("default", 5)
    made = {}
    for number in (3, 1, 2):
        [made[number]] = await enqueue(store, job(round=number, priority=10 * number))
    assert ids(await claim(store)) == [made[1], made[2], made[3]]


async def test_a_keyed_run_is_cut_before_a_round_that_is_not_open(store: Store) -> None:
    made = await enqueue(store, *jobs(2, key="a"), *jobs(2, key="a", round=1))
    claims = await claim(store)
    assert ids(claims) == made[:2]
    await settle(store, done(claims))
    assert await claim(store) == []
    view = await lane(store, "a")
    assert (view.state, view.round, view.depth) == (LaneState.GATED, 1, 2)
    assert await store.open_gate("default", 1) == 1
    assert (await lane(store, "a")).state is LaneState.READY
    assert ids(await claim(store)) == made[2:]


async def test_rounds_never_fall_within_a_keyed_lane(store: Store) -> None:
    made = await enqueue(store, job(key="a", round=2), job(key="a"), job(key="a", round=1))
    made += await enqueue(store, job(key="a"), job(key="a", round=5))
    rounds = [(await store.job(one)).job.round for one in made]
    assert rounds == [2, 2, 2, 2, 5]
    await store.open_gate("default", 4)
    assert await run_all(store) == made[:4]


async def test_a_cancelled_job_does_not_hold_its_round(store: Store) -> None:
    held = await enqueue(store, job(), job(key="a"))
    await enqueue(store, job(round=1))
    for one in held:
        await store.cancel(one, by="ann")
    assert (await store.advance_gate("default")).advanced

"""After_failed: a reaction runs once when one of the jobs it waits for fails, and never otherwise.

Promise P7 of ARCHITECTURE.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from uuid import UUID

import pytest

from inturn.model.clock import ManualClock
from inturn.model.errors import BadInput, DependencyCycle
from inturn.model.job import JobState, NewJob
from inturn.model.lane import OnDead, QueueSettings
from inturn.store.store import Store
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
    queue_status,
    raw,
    run_all,
    settle,
    state,
    stored,
)

FIRST = "first"
"""The queue of what is waited for; a reaction is in the default queue."""

Ending = Callable[[Store, ManualClock, UUID], Awaitable[None]]


def reaction(*others: UUID, **options: object) -> NewJob:
    return job(kind="react", after_failed=frozenset(others), **options)


async def buried_by_its_handler(store: Store, clock: ManualClock, first: UUID) -> None:
    await settle(store, bury(await claim_one(store, queue=FIRST)))


async def spent(store: Store, clock: ManualClock, first: UUID) -> None:
    for _ in range(5):
        await settle(store, fail(await claim_one(store, queue=FIRST), delay=0))


async def lost_with_its_worker(store: Store, clock: ManualClock, first: UUID) -> None:
    while await state(store, first) is not JobState.DEAD:
        await claim(store, queue=FIRST)
        clock.advance(3_600)
        await store.reclaim()


async def cancelled_in_line(store: Store, clock: ManualClock, first: UUID) -> None:
    await store.cancel(first, by="ann")


async def cancelled_between_attempts(store: Store, clock: ManualClock, first: UUID) -> None:
    await settle(store, fail(await claim_one(store, queue=FIRST)))
    await store.cancel(first, by="ann")


async def dead_twice(store: Store, clock: ManualClock, first: UUID) -> None:
    for _ in range(2):
        await settle(store, bury(await claim_one(store, queue=FIRST)))
        await store.dead_retry([first])
    await run_all(store, queue=FIRST)


async def dead_and_dropped(store: Store, clock: ManualClock, first: UUID) -> None:
    await settle(store, bury(await claim_one(store, queue=FIRST)))
    await store.dead_drop([first], by="ann")


ENDINGS = [
    buried_by_its_handler,
    spent,
    lost_with_its_worker,
    cancelled_in_line,
    cancelled_between_attempts,
    dead_twice,
    dead_and_dropped,
]


@pytest.mark.parametrize("end", ENDINGS, ids=lambda end: end.__name__)
@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_a_reaction_runs_once_however_the_death_came_about(
    store: Store, clock: ManualClock, end: Ending, key: str | None
) -> None:
    """Also if what died is retried and done since, or dies again. (B-02)"""
    [first] = await enqueue(store, job(queue=FIRST, key=key))
    [reacts] = await enqueue(store, reaction(first))
    assert await claim(store) == []
    await end(store, clock, first)
    assert await store.check() == []
    assert await run_all(store) == [reacts]
    if await store.dead_retry([first]):
        await settle(store, bury(await claim_one(store, queue=FIRST)))
        await store.dead_drop([first], by="ann")
    assert await run_all(store) == []
    assert await state(store, reacts) is JobState.DONE


async def test_a_reaction_runs_when_a_blocked_or_scheduled_job_is_cancelled_or_buried(
    store: Store,
) -> None:
    """What waits for a job that is dropped is buried, which is a death like others. (B-02)"""
    blocked = await bring_to(store, JobState.BLOCKED, queue=FIRST)
    scheduled = await bring_to(store, JobState.SCHEDULED, queue=FIRST)
    letter = await bring_to(store, JobState.DEAD, queue=FIRST)
    forsaken = job(queue=FIRST, after=frozenset({letter}))
    await store.enqueue([forsaken])
    reactions = [reaction(one) for one in (blocked, scheduled, forsaken.id)]
    await store.enqueue(reactions)
    await store.cancel(blocked, by="ann")
    await store.cancel(scheduled, by="ann")
    await store.dead_drop([letter], by="ann")
    assert await run_all(store) == [one.id for one in reactions]


async def test_a_reaction_runs_when_the_head_of_a_halted_lane_died(store: Store) -> None:
    await store.configure(FIRST, QueueSettings(on_dead=OnDead.HALT))
    [first] = await enqueue(store, job(queue=FIRST, key="a"))
    [reacts] = await enqueue(store, reaction(first))
    await settle(store, bury(await claim_one(store, queue=FIRST)))
    assert await run_all(store) == [reacts]
    await store.drop_lane(FIRST, "a", by="ann")
    assert await run_all(store) == []


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)], ids=str)
async def test_a_reaction_to_several_is_cancelled_silently_when_all_are_done(
    store: Store, order: tuple[int, ...]
) -> None:
    firsts = await enqueue(store, *(job(queue=f"q{number}") for number in range(3)))
    [reacts] = await enqueue(store, reaction(*firsts))
    for number in order:
        view = await store.job(reacts)
        assert (view.state, view.is_reaction) == (JobState.BLOCKED, True)
        assert firsts[number] in view.waits_for
        assert await run_all(store, queue=f"q{number}") == [firsts[number]]
    view = await store.job(reacts)
    assert (view.state, view.cancelled_by) == (JobState.CANCELLED, "inturn")
    assert view.reason == "cancelled, for nothing has failed of what it was to react to"
    assert await run_all(store) == []
    assert (await stored(store))["waits"] == 0


@pytest.mark.parametrize("failing", range(3))
async def test_a_reaction_to_several_runs_at_the_first_failure_and_at_no_other(
    store: Store, failing: int
) -> None:
    firsts = await enqueue(store, *(job(queue=f"q{number}") for number in range(3)))
    [reacts] = await enqueue(store, reaction(*firsts))
    for number in range(3):
        claimed = await claim_one(store, queue=f"q{number}")
        await settle(store, bury(claimed) if number >= failing else done([claimed]))
        assert await run_all(store) == ([reacts] if number == failing else [])
    assert await store.check() == []


@pytest.mark.parametrize("wanted", [JobState.DEAD, JobState.CANCELLED])
async def test_a_reaction_to_what_has_failed_already_runs_at_once(
    store: Store, wanted: JobState
) -> None:
    failed = await bring_to(store, wanted, queue=FIRST)
    [waits] = await enqueue(store, job(queue=FIRST))
    [ticket] = await store.enqueue([reaction(waits, failed, key="a")])
    assert ticket.position == 1
    assert await run_all(store) == [ticket.id]
    await run_all(store, queue=FIRST)
    assert await state(store, ticket.id) is JobState.DONE


async def test_a_reaction_to_what_is_done_already_is_cancelled_at_once(store: Store) -> None:
    finished = await bring_to(store, JobState.DONE, queue=FIRST)
    [ticket] = await store.enqueue([reaction(finished)])
    assert ticket.position is None
    assert await state(store, ticket.id) is JobState.CANCELLED
    assert await run_all(store) == []


async def test_a_reaction_of_the_same_batch_waits_for_what_comes_with_it(store: Store) -> None:
    first, second = job(queue=FIRST), job(queue=FIRST, key="a")
    reacts, rests = reaction(first.id, second.id), reaction(second.id)
    await store.enqueue([rests, reacts, first, second])
    await store.cancel(first.id, by="ann")
    await run_all(store, queue=FIRST)
    assert await run_all(store) == [reacts.id]
    assert await state(store, rests.id) is JobState.CANCELLED


async def test_who_waits_for_a_reaction_that_is_not_needed_waits_for_a_cancelled_job(
    store: Store,
) -> None:
    """So what is to follow a reaction is submitted by it, and never after it."""
    first = job(queue=FIRST)
    needless = reaction(first.id)
    follows = job(after=frozenset({needless.id}))
    reacts = reaction(needless.id)
    await store.enqueue([first, needless, follows, reacts])
    await run_all(store, queue=FIRST)
    assert await run_all(store) == [reacts.id]
    view = await store.job(follows.id)
    assert view.state is JobState.DEAD
    assert view.reason is not None
    assert view.reason.startswith(f"waits for job {needless.id}, which was cancelled, for nothing")


async def test_a_cancelled_reaction_does_not_run(store: Store) -> None:
    [first] = await enqueue(store, job(queue=FIRST))
    [early, late] = await enqueue(store, reaction(first), reaction(first))
    await store.cancel(early, by="ann")
    await settle(store, bury(await claim_one(store, queue=FIRST)))
    await store.cancel(late, by="ann")
    assert await run_all(store) == []
    assert await store.check() == []
    assert (await stored(store))["waits"] == 0


async def test_a_death_that_is_taken_back_lets_nobody_in(store: Store) -> None:
    [first] = await enqueue(store, job(queue=FIRST))
    await enqueue(store, reaction(first))
    claimed = await claim_one(store, queue=FIRST)
    with suppress(RuntimeError):
        async with store.transaction() as transaction:
            await settle(transaction, bury(claimed))
            raise RuntimeError("no commit")
    assert await run_all(store) == []
    await settle(store, done([claimed]))
    assert await run_all(store) == []


async def test_a_reaction_waits_for_failures_and_for_nothing_else(store: Store) -> None:
    [first] = await enqueue(store, job())
    with pytest.raises(BadInput, match="both after and after_failed"):
        await store.enqueue([reaction(first, after=frozenset({first}))])
    with pytest.raises(BadInput, match="both a delay and after_failed"):
        await store.enqueue([reaction(first, delay_seconds=1.0)])
    with pytest.raises(BadInput, match="after_failed must be a set"):
        await store.enqueue([job(after_failed=[first])])
    one, other = job(), job()
    with pytest.raises(DependencyCycle):
        await store.enqueue(
            [job(id=one.id, after=frozenset({other.id})), reaction(one.id, id=other.id)]
        )


async def test_explain_says_what_a_reaction_waits_for(store: Store) -> None:
    firsts = await enqueue(store, job(queue=FIRST), job(queue=FIRST))
    [reacts] = await enqueue(store, reaction(*firsts))
    [waits] = await enqueue(store, reaction(firsts[1]))
    assert await store.explain(reacts) == (
        f"It is blocked: it runs if one of 2 jobs fails, and is cancelled if all are done: "
        f"{firsts[0]} (waiting), {firsts[1]} (waiting)."
    )
    assert await store.explain(waits) == (
        f"It is blocked: it runs if a job fails, and is cancelled if that is done: "
        f"{firsts[1]} (waiting)."
    )
    await store.cancel(firsts[0], by="ann")
    assert await store.explain(reacts) == (
        f"It is due: {firsts[0]} is cancelled. The next claim puts it in line."
    )


async def test_many_react_to_one_death_and_one_reacts_to_many(store: Store) -> None:
    firsts = [job(queue=FIRST) for _ in range(1_000)]
    await store.enqueue(firsts)
    needless = reaction(*(one.id for one in firsts[1:]))
    many = [reaction(firsts[0].id, firsts[-1].id) for _ in range(2_500)]
    await store.enqueue([needless, *many])
    await settle(store, bury(await claim_one(store, queue=FIRST)))
    assert await store.check() == []
    assert sorted(await run_all(store, jobs_max=5_000)) == sorted(one.id for one in many)
    await run_all(store, queue=FIRST)
    assert await state(store, needless.id) is JobState.CANCELLED
    status = await queue_status(store)
    assert (status.blocked, status.waiting) == (0, 0)


@pytest.mark.corrupts
async def test_check_finds_a_reaction_that_was_forgotten(store: Store) -> None:
    [first] = await enqueue(store, job(queue=FIRST))
    [reacts] = await enqueue(store, reaction(first))
    if is_postgres(store):
        await claim(store)  # which finds that the wait is not fresh
    claimed = await claim_one(store, queue=FIRST)
    await settle(store, bury(claimed))
    assert await store.check() == []
    await raw(store, "delete from @reacting")
    said = "\n".join(await store.check())
    assert f"job {reacts} reacts to job {first}, which is dead, and yet waits" in said

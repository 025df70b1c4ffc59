"""After: a job waits for a set of others, and is released by their being done, nothing else.

Promise P7 of ARCHITECTURE.md.
"""

from __future__ import annotations

import pytest

from inturn.model.clock import ManualClock
from inturn.model.errors import DependencyCycle, OutOfBounds, UnknownDependency
from inturn.model.job import JobState
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done
from inturn.store.store import Store
from tests.contract.support import (
    NOWHERE,
    bring_to,
    bury,
    claim,
    claim_one,
    done,
    enqueue,
    ids,
    job,
    jobs,
    run_all,
    settle,
    state,
    stored,
)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)], ids=str)
async def test_a_job_waits_for_every_one_of_its_set_whichever_is_done_last(
    store: Store, order: tuple[int, ...]
) -> None:
    firsts = await enqueue(store, *(job(key=f"{number}") for number in range(3)))
    ticket, *_ = await store.enqueue([job(key="last", after=frozenset(firsts))])
    assert (ticket.lane, ticket.position) == (None, None)
    claims = await claim(store)
    assert ids(claims) == firsts
    for number in order:
        view = await store.job(ticket.id)
        assert view.state is JobState.BLOCKED
        assert firsts[number] in view.waits_for
        assert await claim(store) == []
        await settle(store, done([claims[number]]))
        assert firsts[number] not in (await store.job(ticket.id)).waits_for
    assert await state(store, ticket.id) is JobState.WAITING
    assert ids(await claim(store)) == [ticket.id]


async def test_a_missing_dependency_is_an_error_and_nothing_is_stored(
    store: Store,
) -> None:
    """(000-05)"""
    [there] = await enqueue(store, job())
    before = await stored(store)
    missing = [job().id, job().id]
    with pytest.raises(UnknownDependency) as unknown:
        await store.enqueue([job(), job(after=frozenset([there, *missing]))])
    assert unknown.value.missing == tuple(sorted(missing))
    assert str(missing[0]) in str(unknown.value)
    assert await stored(store) == before


async def test_a_cancelled_dependency_is_told_from_one_that_never_was(
    store: Store,
) -> None:
    """(000-05)"""
    cancelled = await bring_to(store, JobState.CANCELLED)
    with pytest.raises(UnknownDependency) as refused:
        await store.enqueue([job(after=frozenset({cancelled}))])
    assert (refused.value.missing, refused.value.cancelled) == ((cancelled,), (cancelled,))
    assert f"{cancelled}, which was cancelled" in str(refused.value)
    assert "not in this store" not in str(refused.value)
    with pytest.raises(UnknownDependency) as both:
        await store.enqueue([job(after=frozenset({cancelled, NOWHERE}))])
    assert set(both.value.missing) == {cancelled, NOWHERE}
    assert f"{cancelled}, which was cancelled" in str(both.value)
    assert f"{NOWHERE}, which is not in this store" in str(both.value)


async def test_a_pruned_dependency_is_missing(store: Store, clock: ManualClock) -> None:
    """(000-06)"""
    pruned = await bring_to(store, JobState.DONE)
    for _ in range(3):
        clock.advance(2 * 86_400)
        await store.prune()
    with pytest.raises(UnknownDependency, match=str(pruned)):
        await store.enqueue([job(after=frozenset({pruned}))])
    assert (await stored(store))["blocked"] == 0


@pytest.mark.parametrize("wanted", [JobState.DEAD, JobState.SCHEDULED, JobState.RETRYING])
async def test_a_prune_releases_nothing(store: Store, clock: ManualClock, wanted: JobState) -> None:
    """(000-06)"""
    held = await bring_to(store, wanted, queue="first")
    [later] = await enqueue(store, job(after=frozenset({held})))
    for _ in range(3):
        clock.advance(2 * 86_400)
        await store.prune()
        await store.reclaim()
    assert await state(store, later) is JobState.BLOCKED
    assert await claim(store) == []


@pytest.mark.parametrize("wanted", [JobState.WAITING, JobState.SCHEDULED, JobState.RETRYING])
@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_a_cancelled_dependency_releases_nothing(
    store: Store, wanted: JobState, key: str | None
) -> None:
    """(000-06)"""
    gone = await bring_to(store, wanted, queue="first", key=key)
    [later] = await enqueue(store, job(after=frozenset({gone})))
    assert await store.cancel(gone, by="ann") is JobState.CANCELLED
    view = await store.job(later)
    assert view.state is JobState.DEAD
    assert view.reason == f"waits for job {gone}, which was cancelled by ann"
    assert (view.attempt, view.errors) == (0, ())
    assert await claim(store) == []


async def test_a_dropped_dead_letter_releases_nothing(store: Store) -> None:
    """(000-06)"""
    gone = await bring_to(store, JobState.DEAD, queue="first")
    [later] = await enqueue(store, job(after=frozenset({gone})))
    await store.dead_drop([gone], by="ann")
    view = await store.job(later)
    assert view.state is JobState.DEAD
    assert view.reason == f"waits for job {gone}, which was dropped by ann"


async def test_a_dependency_that_is_done_is_satisfied(store: Store) -> None:
    finished = await bring_to(store, JobState.DONE)
    [ticket] = await store.enqueue([job(key="a", after=frozenset({finished}))])
    assert ticket.position == 1
    assert ids(await claim(store)) == [ticket.id]


@pytest.mark.parametrize(
    "wanted",
    [
        JobState.WAITING,
        JobState.RUNNING,
        JobState.SCHEDULED,
        JobState.RETRYING,
        JobState.BLOCKED,
        JobState.DEAD,
    ],
)
async def test_a_dependency_that_is_not_done_blocks(store: Store, wanted: JobState) -> None:
    held = await bring_to(store, wanted, queue="first", key="a")
    [later] = await enqueue(store, job(after=frozenset({held})))
    view = await store.job(later)
    assert (view.state, view.waits_for) == (JobState.BLOCKED, (held,))
    assert await claim(store) == []


async def test_a_dead_dependency_keeps_blocking_and_releases_when_it_is_retried_and_done(
    store: Store,
) -> None:
    [first] = await enqueue(store, job())
    [later] = await enqueue(store, job(after=frozenset({first})))
    await settle(store, bury(await claim_one(store)))
    assert await state(store, later) is JobState.BLOCKED
    await store.dead_retry([first])
    assert await run_all(store) == [first, later]


async def test_a_released_job_joins_the_tail_of_its_lane(store: Store, clock: ManualClock) -> None:
    [first] = await enqueue(store, job(queue="first"))
    [later] = await enqueue(store, job(key="a", after=frozenset({first})))
    accepted_at = clock.now()
    clock.advance(5)
    plain = await enqueue(store, *jobs(2, key="a"))
    await run_all(store, queue="first")
    view = await store.job(later)
    assert (view.state, view.job.enqueued_at) == (JobState.WAITING, accepted_at)
    assert await run_all(store) == [*plain, later]


async def test_a_released_job_stands_before_what_is_accepted_after_its_release(
    store: Store,
) -> None:
    """It joins its lane in the transaction that settles what it waited for, not some time later."""
    [first] = await enqueue(store, job(queue="first"))
    [released] = await enqueue(store, job(key="a", after=frozenset({first})))
    await run_all(store, queue="first")
    [later] = await enqueue(store, job(key="a"))
    assert await run_all(store) == [released, later]


async def test_a_job_that_waits_for_a_duplicate_waits_for_the_first(store: Store) -> None:
    [first] = await enqueue(store, job(dedupe="d"))
    again = job(dedupe="d")
    later = job(after=frozenset({again.id}))
    tickets = await store.enqueue([again, later])
    assert (tickets[0].id, tickets[0].duplicate) == (first, True)
    assert (await store.job(later.id)).waits_for == (first,)
    assert await run_all(store) == [first, later.id]


async def test_a_circle_is_refused(store: Store) -> None:
    """(000-04)"""
    a, b, c = job(), job(), job()
    circle = [
        job(id=a.id, after=frozenset({c.id})),
        job(id=b.id, after=frozenset({a.id})),
        job(id=c.id, after=frozenset({b.id})),
    ]
    with pytest.raises(DependencyCycle) as cycle:
        await store.enqueue(circle)
    assert set(cycle.value.cycle) == {a.id, b.id, c.id}
    with pytest.raises(DependencyCycle):
        await store.enqueue([job(id=a.id, after=frozenset({a.id}))])
    assert set((await stored(store)).values()) == {0}


async def test_a_cancelled_blocked_job_buries_what_waits_for_it(store: Store) -> None:
    first = job()
    second = job(after=frozenset({first.id}))
    third = job(after=frozenset({second.id}))
    await store.enqueue([first, second, third])
    assert await store.cancel(second.id, by="ann") is JobState.CANCELLED
    assert await state(store, third.id) is JobState.DEAD
    assert await run_all(store) == [first.id]
    assert await state(store, second.id) is JobState.CANCELLED


async def test_a_buried_dependent_is_blocked_no_more_when_it_is_put_back(store: Store) -> None:
    """A person who retries it takes the decision that it may run without the cancelled one."""
    first, second = await enqueue(store, job(), job(key="b"))
    [later] = await enqueue(store, job(key="a", after=frozenset({first, second})))
    await store.cancel(first, by="ann")
    assert await store.dead_retry([later]) == [later]
    assert later in ids(await claim(store))


async def test_jobs_released_together_join_a_lane_in_the_order_they_were_accepted(
    store: Store,
) -> None:
    [first] = await enqueue(store, job(queue="first"))
    made = await enqueue(store, *(job(key="a", after=frozenset({first})) for _ in range(5)))
    await run_all(store, queue="first")
    assert await run_all(store) == made


async def test_a_job_waits_for_more_than_a_view_names(store: Store) -> None:
    """What has failed is named by explain all the same, and work goes on when all are done."""
    firsts = [job(queue="first") for _ in range(2_000)]
    await store.enqueue(firsts)
    after = frozenset(one.id for one in firsts)
    both = await enqueue(store, job(after=after), job(after=after))
    view = await store.job(both[0])
    assert (view.waits_for, view.waits_for_count) == (tuple(sorted(after)[:100]), 2_000)
    [claimed] = await claim(store, 2_000, queue="first")
    last, *others = reversed(claimed.jobs)
    await settle(store, [Settlement(claimed.lease, [Outcome(last, Bury("hopeless"))])])
    assert f"waits for 2,000 jobs: {last.id} (a dead letter" in await store.explain(both[0])
    await store.dead_retry([last.id])
    outcomes = [Outcome(one, Done()) for one in reversed(others)]
    await settle(store, [Settlement(claimed.lease, outcomes)])
    await run_all(store, queue="first")
    for _ in range(3):  # a claim looks at a thousand waits
        await claim(store, queue="first")
    assert sorted(await run_all(store)) == sorted(both)


async def test_a_batch_may_wait_a_million_times(store: Store) -> None:
    after = frozenset(job().id for _ in range(50_000))
    with pytest.raises(OutOfBounds, match=r"wait 1,050,000 times .* 1,000,000"):
        await store.enqueue([job(after=after) for _ in range(21)])


async def test_a_large_batch_that_waits_for_one_job_is_accepted(store: Store) -> None:
    """5,000 in one call: the cost of a batch grows with its size, not with its square."""
    [hub] = await enqueue(store, job())
    after = frozenset({hub})
    made = await store.enqueue([job(after=after) for _ in range(5_000)])
    assert len(made) == 5_000
    await settle(store, done(await claim(store)))
    assert await state(store, made[-1].id) is JobState.BLOCKED, "a settle lets in a thousand"
    assert await store.check() == []
    assert sorted(await run_all(store)) == sorted(ticket.id for ticket in made)
    assert await store.check() == []

"""Enqueue: jobs are accepted in order, all or none, and once.

Promise P11 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio

import pytest

from inturn.model.clock import ManualClock
from inturn.store.store import Store
from tests.contract.support import (
    broken,
    claim,
    enqueue,
    ids,
    job,
    jobs,
    queue_status,
    run_all,
    stored,
)


async def test_jobs_of_a_key_get_positions_without_gaps(store: Store) -> None:
    first = await store.enqueue(jobs(3, key="a"))
    second = await store.enqueue(jobs(2, key="a"))
    assert [ticket.position for ticket in first + second] == [1, 2, 3, 4, 5]
    assert len({ticket.lane for ticket in first + second}) == 1


async def test_tickets_come_in_the_order_of_the_batch(store: Store) -> None:
    batch = [job(key=key, queue=queue) for queue in ("q", "p") for key in ("b", "a", None, "b")]
    tickets = await store.enqueue(batch)
    assert [ticket.id for ticket in tickets] == [one.id for one in batch]
    assert not any(ticket.duplicate for ticket in tickets)


async def test_a_ticket_has_a_version_7_id(store: Store) -> None:
    """(003-01)"""
    assert all(one.version == 7 for one in await enqueue(store, *jobs(10)))


async def test_ids_go_up_while_the_clock_goes_back(store: Store, clock: ManualClock) -> None:
    """(003-02)"""
    made = []
    for _ in range(5):
        made += await enqueue(store, *jobs(20))
        clock.advance(-3600)
    assert made == sorted(set(made))
    assert sorted(await run_all(store)) == made


async def test_a_job_is_kept_with_all_its_options(store: Store, clock: ManualClock) -> None:
    new = job(
        "mail",
        payload='{"to": 1}',
        queue="q",
        key="a",
        priority=-7,
        attempts_max=3,
        timeout_seconds=1.25,
    )
    await store.enqueue([new])
    kept = (await store.job(new.id)).job
    assert (kept.id, kept.queue, kept.key, kept.kind) == (new.id, "q", "a", "mail")
    assert (kept.payload, kept.priority, kept.round) == ('{"to": 1}', -7, 0)
    assert (kept.attempts_max, kept.timeout_seconds) == (3, 1.25)
    assert kept.enqueued_at == clock.now()


async def test_a_batch_that_is_sent_again_is_stored_once(store: Store) -> None:
    batch = [job(key="a"), job(), job(delay_seconds=1), job(key="a")]
    first = await store.enqueue(batch)
    again = await store.enqueue(batch)
    assert [ticket.id for ticket in again] == [ticket.id for ticket in first]
    status = await queue_status(store)
    assert (status.waiting, status.scheduled) == (3, 1)


@pytest.mark.parametrize(
    ("table", "event"),
    [("job", "insert"), ("lane", "insert"), ("parked", "insert"), ("blocked", "insert")],
)
async def test_a_batch_that_breaks_off_leaves_nothing(store: Store, table: str, event: str) -> None:
    first = job(key="a")
    batch = [first, job(), job(delay_seconds=1), job(after=frozenset({first.id}))]
    async with broken(store, table, event):
        with pytest.raises(Exception, match="broken by a test"):
            await store.enqueue(batch)
    assert set((await stored(store)).values()) == {0}
    assert len(await store.enqueue(batch)) == 4


async def test_a_large_batch_keeps_the_order_of_every_key(store: Store) -> None:
    batch = [job(key=f"key {number % 50}") for number in range(2_000)]
    tickets = await store.enqueue(batch)
    assert [ticket.position for ticket in tickets] == [number // 50 + 1 for number in range(2_000)]
    ran = await run_all(store, jobs_max=700)
    for key in range(50):
        mine = [one.id for one in batch[key::50]]
        assert [one for one in ran if one in set(mine)] == mine


async def test_concurrent_producers_of_one_key_leave_no_gap(
    store: Store, other_store: Store
) -> None:
    batches = [jobs(5, key="a") for _ in range(10)]
    given = await asyncio.gather(
        *(one.enqueue(batch) for one, batch in zip([store, other_store] * 5, batches, strict=True))
    )
    positions = [[ticket.position or 0 for ticket in tickets] for tickets in given]
    assert sorted(one for some in positions for one in some) == list(range(1, 51))
    # A batch stands together, in its order.
    for some in positions:
        assert some == list(range(some[0], some[0] + 5))
    ran = ids(await claim(store))
    placed = {ticket.position: ticket.id for tickets in given for ticket in tickets}
    assert ran == [placed[position] for position in range(1, 51)]

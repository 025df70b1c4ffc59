"""Dedupe keys and bounds hold when producers come at the same moment.

Promise P10 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio

import pytest

from inturn.model.errors import DedupeConflict, QueueFull
from inturn.model.lane import QueueSettings
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.producer import Opening
from tests.concurrency.support import drain, enqueue, held_up, job, quickly


@pytest.mark.parametrize("commits", [True, False])
async def test_the_second_waits_for_the_first_to_commit_or_roll_back(
    store: PostgresStore, producer: Opening, commits: bool
) -> None:
    await enqueue(store, job("b"))
    await drain(store)
    open_one = await producer()
    [first] = await open_one.tickets(job("a", dedupe="mail"))
    second = asyncio.ensure_future(store.enqueue([job("a", dedupe="mail")]))
    assert await held_up(second)
    await quickly(store.enqueue([job("a2", dedupe="another")]))
    await (open_one.commit() if commits else open_one.rollback())
    [ticket] = await quickly(second)
    assert ticket.duplicate is commits
    assert (ticket.id == first.id) is commits
    assert len(await drain(store)) == 2


async def test_one_of_two_different_jobs_under_one_dedupe_key_is_a_conflict(
    store: PostgresStore,
) -> None:
    """(001-17)"""
    answers = await asyncio.gather(
        *(store.enqueue([job("a", dedupe="mail", payload=str(n))]) for n in range(4)),
        return_exceptions=True,
    )
    conflicts = [answer for answer in answers if isinstance(answer, DedupeConflict)]
    assert len(conflicts) == 3
    assert len(await drain(store)) == 1


async def test_batches_with_the_same_dedupe_keys_in_any_order_all_succeed(
    store: PostgresStore,
) -> None:
    """Producers that repeat one another's work, each in an order of its own."""
    names = [f"mail {n:03}" for n in range(200)]

    async def produce(number: int) -> None:
        mine = names if number % 2 else names[::-1]
        await store.enqueue([job(name, dedupe=name) for name in mine])

    answers = await asyncio.gather(*(produce(n) for n in range(6)), return_exceptions=True)
    assert [answer for answer in answers if answer is not None] == []
    assert len(await drain(store)) == len(names)


@pytest.mark.parametrize(
    "settings", [QueueSettings(depth_max=20), QueueSettings(lane_depth_max=20)]
)
async def test_a_bound_is_passed_by_no_more_than_was_being_committed(
    store: PostgresStore, settings: QueueSettings
) -> None:
    """(003-14)"""
    await store.configure("default", settings)
    key = "a" if settings.lane_depth_max else None
    answers = await asyncio.gather(
        *(store.enqueue([job(key or f"key {n}")]) for n in range(60)), return_exceptions=True
    )
    assert all(isinstance(answer, QueueFull | list) for answer in answers)
    accepted = [answer for answer in answers if isinstance(answer, list)]
    assert 20 <= len(accepted) <= 20 + 10  # the pool has ten connections
    with pytest.raises(QueueFull):
        await store.enqueue([job("a")])
    assert len(await drain(store)) == len(accepted)
    await store.enqueue([job("a")])
    assert len(await drain(store)) == 1

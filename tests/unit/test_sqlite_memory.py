"""The SQLite store in memory: the same verbs on one connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from inturn.model.job import JobState, NewJob
from inturn.policy.settlement import Settlement
from inturn.store.address import connect
from inturn.store.protocol import Store


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = connect("sqlite:///:memory:")
    await store.migrate()
    await store.open()
    yield store
    assert await store.check() == []
    await store.close()


async def test_a_store_in_memory_works_like_any_other(store: Store) -> None:
    tickets = await store.enqueue([NewJob(kind="k", key="a"), NewJob(kind="k")])
    claims = await store.claim("default", jobs_max=5, worker="w")
    await store.settle([Settlement.done(claim) for claim in claims], worker="w")
    states = [(await store.job(ticket.id)).state for ticket in tickets]
    assert states == [JobState.DONE, JobState.DONE]


async def test_two_stores_in_memory_are_two_stores(store: Store) -> None:
    other = connect("sqlite:///:memory:")
    await other.open()
    await store.enqueue([NewJob(kind="k")])
    assert await other.queues() == []
    await other.close()


async def test_a_transaction_in_memory_can_be_read_by_its_own_caller(store: Store) -> None:
    async with store.transaction() as transaction:
        [ticket] = await transaction.enqueue([NewJob(kind="k")])
        assert (await store.job(ticket.id)).state is JobState.WAITING
    assert (await store.job(ticket.id)).state is JobState.WAITING


async def test_a_waiter_in_memory_is_woken_by_a_commit_and_by_time(store: Store) -> None:
    waiting = asyncio.ensure_future(store.wait(["default"], timeout_seconds=60))
    await asyncio.sleep(0.02)
    await store.enqueue([NewJob(kind="k", delay_seconds=0.1)])
    assert await asyncio.wait_for(waiting, 60) is True
    await store.enqueue([NewJob(kind="k", queue="full")])
    assert await store.wait(["full"], timeout_seconds=60) is True
    assert await store.wait(["empty"], timeout_seconds=0.05) is False

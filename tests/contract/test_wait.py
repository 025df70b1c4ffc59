"""Wait: a hint that work may have arrived, never a promise."""

from __future__ import annotations

import asyncio
import time

import pytest

from inturn.store.address import connect
from inturn.store.store import Store
from tests.contract.support import claim, claim_one, enqueue, fail, ids, job, settle

SOON = 30.0


async def test_a_wait_ends_when_its_time_is_over(store: Store) -> None:
    started = time.monotonic()
    assert await store.wait(["quiet"], timeout_seconds=0.05) is False
    assert 0.04 < time.monotonic() - started < SOON


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
async def test_a_wait_ends_when_work_arrives(
    store: Store, other_store: Store, key: str | None, elsewhere: bool
) -> None:
    waiting = asyncio.ensure_future(store.wait(["q"], timeout_seconds=SOON))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    started = time.monotonic()
    [made] = await enqueue(other_store if elsewhere else store, job(queue="q", key=key))
    assert await waiting is True
    assert time.monotonic() - started < SOON / 2
    assert ids(await claim(store, queue="q")) == [made]


async def test_a_wait_for_several_queues_ends_with_any_of_them(
    store: Store, other_store: Store
) -> None:
    waiting = asyncio.ensure_future(store.wait(["p", "q", "r"], timeout_seconds=SOON))
    await asyncio.sleep(0.1)
    await enqueue(other_store, job(queue="q"))
    assert await waiting is True


async def test_a_wait_that_is_cancelled_leaves_the_store_in_order(store: Store) -> None:
    waiting = asyncio.ensure_future(store.wait(["q"], timeout_seconds=SOON))
    await asyncio.sleep(0.02)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    [made] = await enqueue(store, job(queue="q"))
    assert ids(await claim(store, queue="q")) == [made]


@pytest.mark.parametrize("suspect", [False, True], ids=["retry", "suspect"])
@pytest.mark.parametrize("paused", [False, True], ids=["of another kind", "in a paused queue"])
async def test_a_wait_does_not_tell_for_ever_of_what_is_due_and_nobody_takes(
    store_url: str, suspect: bool, paused: bool
) -> None:
    store = connect(store_url)  # with the time as it is
    await store.open()
    try:
        await enqueue(store, job(queue="q", key="a", kind="theirs"))
        if suspect:
            await claim(store, queue="q", lease_seconds=0.001)
            await asyncio.sleep(0.01)
            await store.reclaim()
        else:
            await settle(store, fail(await claim_one(store, queue="q"), delay=0.001))
            await asyncio.sleep(0.01)
        if paused:
            await store.pause("q", by="a person")
        told = []
        for _ in range(6):
            told.append(await store.wait(["q"], timeout_seconds=0.02))
            assert not await claim(store, queue="q", kinds=["ours"], suspects_max=0)
        assert not any(told[3:])
        if paused:
            await store.resume("q")
        assert await claim(store, queue="q", suspects_max=1)
    finally:
        await store.close()

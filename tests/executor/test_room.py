"""Bounds on what waits: per shard, in total, and on memory.

Promise E4 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc

import pytest

from inturn.executor import LocalTicket
from inturn.executor.lanes import Lane
from inturn.model import events
from inturn.model.errors import EnqueueTimeout, QueueFull, ShardFull
from tests.executor.support import (
    SECONDS_MAX,
    Running,
    Seen,
    keys_of_one_shard,
)


async def fine() -> None: ...


async def test_queue_full_carries_shard_length_and_capacity() -> None:
    """(004-11)"""
    gate = asyncio.Event()
    seen = Seen()
    async with Running(
        shards=4, slots=1, queue_size=2, enqueue_timeout="30ms", listeners=[seen.listen]
    ) as executor:
        one, two = keys_of_one_shard(executor, 2, shard=3)
        await executor.submit(one, gate.wait)
        await executor.submit(one, fine)
        await executor.submit(two, fine)
        began = time.monotonic()
        with pytest.raises(QueueFull) as caught:
            await executor.submit(two, fine)
        assert time.monotonic() - began > 0.025
        full = caught.value
        assert isinstance(full, EnqueueTimeout)
        assert (full.shard, full.length, full.capacity) == (3, 2, 2)
        assert "none came free in 0.03 s" in str(full)
        other = keys_of_one_shard(executor, 1, shard=1)[0]
        await executor.submit(other, fine)  # another shard has room
        gate.set()
    assert [(event.shard, event.length) for event in seen.of(events.Refused)] == [(3, 2)]


async def test_a_timeout_of_zero_tries_once() -> None:
    """(004-11)"""
    gate = asyncio.Event()
    async with Running(shards=1, queue_size=1, enqueue_timeout=0) as executor:
        await executor.submit("one", gate.wait)  # a free slot needs no room
        await executor.submit("one", fine)
        with pytest.raises(ShardFull) as caught:
            executor.submit("one", fine).send(None)  # at its first step, without waiting
        with pytest.raises(ShardFull):
            executor.submit_sync("one", fine)
        assert not isinstance(caught.value, TimeoutError)
        gate.set()
        await executor.barrier("one")
        await executor.submit("one", fine)


async def test_room_that_comes_free_in_time_is_taken() -> None:
    """(004-11)"""
    gate, second = asyncio.Event(), asyncio.Event()
    async with Running(shards=1, queue_size=1, enqueue_timeout=0) as executor:
        await executor.submit("one", gate.wait)
        await executor.submit("one", second.wait)
        asyncio.get_running_loop().call_later(0.02, gate.set)
        ticket = await executor.submit("one", fine, timeout=2)
        assert not ticket.ended  # the slot is still taken, but a place in line came free
        second.set()
        await ticket.result(SECONDS_MAX)


async def test_a_thread_waits_for_room_too() -> None:
    """(004-11)"""
    gate = asyncio.Event()
    async with Running(shards=1, queue_size=1) as executor:
        await executor.submit("one", gate.wait)
        await executor.submit("one", fine)
        with pytest.raises(EnqueueTimeout):
            await asyncio.to_thread(executor.submit_sync, "one", fine, timeout=0.01)
        waiting = asyncio.create_task(
            asyncio.to_thread(executor.submit_sync, "one", fine, timeout=SECONDS_MAX)
        )
        await asyncio.sleep(0.01)
        gate.set()
        await (await waiting).result(SECONDS_MAX)


async def test_all_shards_together_are_bounded() -> None:
    gate = asyncio.Event()
    async with Running(
        shards=4, slots=1, queue_size=10, depth_max=3, enqueue_timeout=0
    ) as executor:
        keys = [keys_of_one_shard(executor, 1, shard)[0] for shard in range(4)]
        await executor.submit(keys[0], gate.wait)
        for key in keys[:3]:
            await executor.submit(key, fine)
        with pytest.raises(QueueFull) as caught:
            await executor.submit(keys[3], fine)
        assert isinstance(caught.value, ShardFull)
        assert (caught.value.shard, caught.value.length, caught.value.capacity) == (3, 3, 3)
        assert "all its shards together, holds 3 waiting jobs" in str(caught.value)
        assert "raise depth_max" in str(caught.value)
        waiting = asyncio.create_task(executor.submit(keys[3], fine, timeout=SECONDS_MAX))
        await asyncio.sleep(0)
        gate.set()
        await (await waiting).result(SECONDS_MAX)


async def test_memory_stays_bounded_under_a_flood_of_jobs_and_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """(004-25)"""
    monkeypatch.setattr("inturn.model.bounds.SHARD_CACHE_KEYS_MAX", 500)
    gate = asyncio.Event()
    refused = 0
    async with Running(shards=4, slots=2, queue_size=50, enqueue_timeout=0) as executor:
        await executor.submit("held-1", gate.wait)
        await executor.submit("held-2", gate.wait)
        await asyncio.sleep(0)

        async def flood(first: int, count: int) -> None:
            nonlocal refused
            for number in range(first, first + count):
                try:
                    await executor.submit(f"key-{number:08}", fine)
                except QueueFull:
                    refused += 1

        tracemalloc.start()
        await flood(0, 3_000)  # fills the shards, and what is remembered about keys
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        await flood(3_000, 6_000)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert refused > 8_500
        assert sum(executor.depths()) == 200
        assert executor.keys_busy == 202
        assert after - before < 50_000
        gate.set()
    assert executor.keys_busy == 0


async def test_nothing_is_kept_of_jobs_and_keys_that_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """(004-25)"""
    monkeypatch.setattr("inturn.model.bounds.SHARD_CACHE_KEYS_MAX", 100)

    def kept() -> int:
        gc.collect()
        return sum(isinstance(one, Lane | LocalTicket) for one in gc.get_objects())

    async with Running(shards=4, slots=2, queue_size=50) as executor:

        async def flood(first: int, count: int) -> None:
            for number in range(first, first + count):
                await executor.submit(f"key-{number:08}", fine, timeout=SECONDS_MAX)
            while executor.keys_busy:  # noqa: ASYNC110 - until all have ended
                await asyncio.sleep(0)

        async with asyncio.timeout(SECONDS_MAX):
            before = kept()
            tracemalloc.start()
            await flood(0, 500)
            gc.collect()
            size_before, _ = tracemalloc.get_traced_memory()
            await flood(500, 5_000)
            gc.collect()
            size_after, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert kept() <= before + 4  # what a slot ran last
        assert executor._lanes.by_key == {}
        assert not executor._lanes.slots.waiting
        assert size_after - size_before < 50_000


async def test_a_batch_is_accepted_whole_or_not_at_all() -> None:
    gate = asyncio.Event()
    async with Running(shards=1, slots=1, queue_size=5, enqueue_timeout=0) as executor:
        await executor.submit("one", gate.wait)
        await executor.submit_many([("one", fine), ("two", fine)])
        with pytest.raises(ShardFull) as caught:
            await executor.submit_many([(f"key-{number}", fine) for number in range(4)])
        assert caught.value.added == 4
        assert executor.depths() == [2]
        with pytest.raises(ShardFull, match="never fit"):
            await executor.submit_many([("one", fine)] * 6, timeout=SECONDS_MAX)
        tickets = await executor.submit_many([("one", fine)] * 3)
        assert executor.depths() == [5]
        assert await executor.submit_many([]) == []
        gate.set()
        for ticket in tickets:
            await ticket.result(SECONDS_MAX)

"""Jobs of one key run one at a time and in order; keys run beside one another.

Promises E1 and E2 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict

import pytest

from tests.executor.support import SECONDS_MAX, Running, keys_of_one_shard


@pytest.mark.parametrize("kind", ["async", "def", "mixed"])
async def test_ten_thousand_jobs_of_random_keys_run_in_order_for_each_key(kind: str) -> None:
    """(004-01)"""
    dice = random.Random(1)
    ran: dict[str, list[int]] = defaultdict(list)
    running: set[str] = set()
    overlaps: list[str] = []

    def enter(key: str, number: int) -> None:
        if key in running:
            overlaps.append(key)
        running.add(key)
        ran[key].append(number)

    async with Running(queue_size=10_000, slots=8) as executor:
        for number in range(10_000):
            key = f"key-{dice.randrange(100)}"

            async def on_loop(key: str = key, number: int = number) -> None:
                enter(key, number)
                if number % 7 == 0:
                    await asyncio.sleep(0)
                running.discard(key)

            def on_thread(key: str = key, number: int = number) -> None:
                enter(key, number)
                running.discard(key)

            jobs = {"async": on_loop, "def": on_thread, "mixed": (on_loop, on_thread)[number % 2]}
            await executor.submit(key, jobs[kind])
    assert sum(map(len, ran.values())) == 10_000
    assert all(numbers == sorted(numbers) for numbers in ran.values())
    assert not overlaps


@pytest.mark.parametrize("on_thread", [False, True])
async def test_many_threads_submit_to_one_key_and_its_jobs_never_overlap(
    on_thread: bool,
) -> None:
    """(004-02)"""
    ran: list[tuple[int, int]] = []
    inside = 0
    overlaps = 0

    def enter() -> None:
        nonlocal inside, overlaps
        inside += 1
        overlaps += inside > 1

    def leave(name: tuple[int, int]) -> None:
        nonlocal inside
        ran.append(name)
        inside -= 1

    async with Running(queue_size=50, slots=8, enqueue_timeout=SECONDS_MAX) as executor:

        def producer(who: int) -> None:
            for number in range(200):

                def job(name: tuple[int, int] = (who, number)) -> None:
                    enter()
                    leave(name)

                async def job_on_loop(name: tuple[int, int] = (who, number)) -> None:
                    enter()
                    await asyncio.sleep(0)
                    leave(name)

                executor.submit_sync("one", job if on_thread else job_on_loop)

        await asyncio.gather(*(asyncio.to_thread(producer, who) for who in range(6)))
        await executor.barrier("one")
    assert overlaps == 0
    assert len(ran) == 1_200
    for who in range(6):
        assert [number for name, number in ran if name == who] == list(range(200))


async def test_coroutines_that_wait_for_room_get_in_in_their_order() -> None:
    """(004-02)"""
    ran: list[int] = []
    gate = asyncio.Event()
    async with Running(shards=1, queue_size=2, enqueue_timeout=SECONDS_MAX) as executor:
        await executor.submit("one", gate.wait)

        async def submit(number: int) -> None:
            async def job() -> None:
                ran.append(number)

            await executor.submit("one", job)

        submitting = [asyncio.create_task(submit(number)) for number in range(50)]
        await asyncio.sleep(0.01)
        assert executor.depths() == [2]
        gate.set()
        await asyncio.gather(*submitting)
    assert ran == list(range(50))


async def test_keys_that_hash_alike_do_not_block_one_another() -> None:
    """(004-03)"""
    gate = asyncio.Event()
    async with Running(shards=4, slots=2) as executor:
        stuck, free = keys_of_one_shard(executor, 2)
        await executor.submit(stuck, gate.wait)

        async def job() -> str:
            return "done"

        ticket = await executor.submit(free, job)
        assert await ticket.result(SECONDS_MAX) == "done"
        gate.set()


async def test_a_key_that_waits_to_retry_holds_no_slot() -> None:
    """(004-03)"""
    long = SECONDS_MAX
    async with Running(slots=1, base_backoff=long, max_interval=long, jitter=0.0) as executor:
        failed = asyncio.Event()

        async def fails_once() -> None:
            if not failed.is_set():
                failed.set()
                raise ValueError("once")

        async def job() -> float:
            return asyncio.get_running_loop().time()

        retried = await executor.submit("a", fails_once)
        await failed.wait()
        other = await executor.submit("b", job)
        await other.result(SECONDS_MAX)
        assert not retried.ended
        retried.cancel()


async def test_as_many_keys_run_at_once_as_there_are_slots_and_no_more() -> None:
    """(004-04)"""
    everyone = asyncio.Event()
    inside = peak = 0
    free: list[int] = []

    async def job() -> None:
        nonlocal inside, peak
        inside += 1
        peak = max(peak, inside)
        if inside == 7:
            free.append(executor.free_slots)
            everyone.set()
        await everyone.wait()
        inside -= 1

    async with Running(slots=7) as executor:
        for number in range(30):
            await executor.submit(f"key-{number}", job)
        await asyncio.wait_for(everyone.wait(), SECONDS_MAX)
    assert peak == 7
    assert set(free) == {0}


async def test_ready_keys_take_turns_whatever_one_of_them_has_in_line() -> None:
    ran: list[str] = []
    async with Running(slots=1, queue_size=1_000) as executor:
        for number in range(300):

            async def job(name: str = "long" if number < 200 else f"short-{number}") -> None:
                ran.append(name)

            await executor.submit("long" if number < 200 else f"short-{number}", job)
    assert ran.index("short-299") < 205


@pytest.mark.parametrize("shards", [1, 2, 5, 16])
async def test_order_for_each_key_does_not_depend_on_the_number_of_shards(
    shards: int,
) -> None:
    """(004-23)"""
    ran: dict[str, list[int]] = defaultdict(list)
    async with Running(shards=shards, slots=4, queue_size=2_000) as executor:
        for number in range(2_000):
            key = f"key-{number % 37}"

            async def job(key: str = key, number: int = number) -> None:
                await asyncio.sleep(0)
                ran[key].append(number)

            await executor.submit(key, job)
    assert len(ran) == 37
    assert all(numbers == sorted(numbers) for numbers in ran.values())
    assert sum(map(len, ran.values())) == 2_000

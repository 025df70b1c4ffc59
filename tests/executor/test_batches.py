"""What a worker asks of an executor: many jobs at once, free slots, completions together."""

from __future__ import annotations

import asyncio
import threading

from tests.executor.support import SECONDS_MAX, Running, jump, waiting_thread_job


async def fine() -> str:
    return "fine"


async def test_free_slots_and_busy_keys_are_known() -> None:
    gate = threading.Event()
    async with Running(slots=3) as executor:
        assert (executor.free_slots, executor.keys_busy) == (3, 0)
        await executor.submit("one", waiting_thread_job(gate))
        await executor.submit("one", fine)
        await executor.submit("two", waiting_thread_job(gate))
        assert (executor.free_slots, executor.keys_busy) == (1, 2)
        gate.set()
        await executor.barrier("one")
        await executor.barrier("two")
        assert (executor.free_slots, executor.keys_busy) == (3, 0)


def test_a_slot_on_the_loop_goes_from_job_to_job_and_waits_for_no_timer() -> None:
    async def main() -> tuple[int, float]:
        ran = 0

        async def count() -> None:
            nonlocal ran
            ran += 1

        async with Running(shards=1, queue_size=5_000) as executor:
            began = asyncio.get_running_loop().time()
            for _ in range(5_000):
                await executor.submit("one", count)
            await executor.barrier("one")
            return ran, asyncio.get_running_loop().time() - began

    assert jump(main) == (5_000, 0.0)


async def test_a_slot_on_threads_goes_from_job_to_job_past_the_loop() -> None:
    gate, all_ran = threading.Event(), threading.Event()
    threads: list[int] = []

    def count() -> None:
        threads.append(threading.get_ident())
        if len(threads) == 5_000:
            all_ran.set()

    async with Running(shards=1, queue_size=5_001) as executor:
        await executor.submit("one", waiting_thread_job(gate))
        for _ in range(5_000):
            await executor.submit("one", count)
        gate.set()
        assert all_ran.wait(SECONDS_MAX)  # the loop stands still meanwhile
        assert len(set(threads)) == 1

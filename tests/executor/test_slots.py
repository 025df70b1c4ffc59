"""The slots on the loop: as many as jobs wait, in the order in which they were given."""

from __future__ import annotations

import asyncio
import threading
from random import Random

import pytest

from tests.executor.support import SECONDS_MAX, Running, waiting_thread_job


async def test_jobs_that_never_wait_share_one_slot_and_run_as_they_came() -> None:
    ran: list[int] = []

    def job(number: int) -> object:
        async def run() -> None:
            ran.append(number)

        return run

    async with Running(slots=20, queue_size=1_000) as executor:
        await executor.submit_many([(f"key {one}", job(one)) for one in range(500)])
        await executor.barrier("key 499")
        assert len(executor._lanes.slots.on_loop) == 1
    assert ran == list(range(500)), "who got a slot first runs first"


async def test_a_job_that_computes_lets_the_loop_turn_before_the_next() -> None:
    turns: list[int] = []
    ran = 0

    async def computes() -> None:
        nonlocal ran
        ran += 1
        loop = asyncio.get_running_loop()
        until = loop.time() + 0.005
        while loop.time() < until:
            pass

    async with Running(slots=20, queue_size=1_000) as executor:
        await executor.submit_many([(f"key {one}", computes) for one in range(10)])
        while ran < 10:
            await asyncio.sleep(0)
            turns.append(ran)
    assert len(set(turns)) >= 10, "never two of them between two turns of the loop"


@pytest.mark.parametrize("seed", range(5))
async def test_no_job_is_left_behind_however_others_wait_fail_or_are_cancelled(seed: int) -> None:
    dice = Random(seed)

    async def at_once() -> None: ...

    async def waits() -> None:
        await asyncio.sleep(dice.choice([0, 0, 0.001]))

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def fails_at_once() -> None:
        raise ValueError("no")

    kinds = [at_once, at_once, waits, waits, fails, fails_at_once]
    async with Running(
        slots=5, queue_size=10_000, max_attempts=1, error_handler=lambda failure: None
    ) as executor:
        tickets = []
        for _ in range(20):
            jobs = [(f"key {dice.randrange(12)}", dice.choice(kinds)) for _ in range(20)]
            tickets += await executor.submit_many(jobs)
            for ticket in dice.sample(tickets, 5):
                ticket.cancel()
            await asyncio.sleep(0)
        async with asyncio.timeout(SECONDS_MAX):
            await asyncio.gather(*(one.result() for one in tickets), return_exceptions=True)
        assert executor.keys_busy == 0
        assert executor._lanes.slots._awake == 0, "all slots rest"


async def test_a_slot_on_threads_goes_from_job_to_job_past_the_loop() -> None:
    gate, all_ran = threading.Event(), threading.Event()
    threads: list[int] = []

    def count() -> None:
        threads.append(threading.get_ident())
        if len(threads) == 500:
            all_ran.set()

    async with Running(shards=1, queue_size=501) as executor:
        await executor.submit("one", waiting_thread_job(gate))
        for _ in range(500):
            await executor.submit("one", count)
        gate.set()
        assert all_ran.wait(SECONDS_MAX)  # the loop stands still meanwhile
        assert len(set(threads)) == 1

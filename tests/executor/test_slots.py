"""The slots on the loop: as many as jobs wait, in the order in which they were given."""

from __future__ import annotations

import asyncio

from tests.executor.support import Running


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

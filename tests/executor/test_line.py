"""Who waits for room, who passes them because a slot is free, and what both leave to the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from inturn.executor import LocalTicket
from inturn.model.errors import ShardFull
from tests.executor.support import SECONDS_MAX, Failing, Running

Submit = Callable[[Running, str, Any], Coroutine[Any, Any, list[LocalTicket]]]


async def fine() -> str:
    return "ran"


async def alone(executor: Running, key: str, job: Any) -> list[LocalTicket]:
    return [await executor.submit(key, job, timeout=0)]


async def on_a_thread(executor: Running, key: str, job: Any) -> list[LocalTicket]:
    return [await asyncio.to_thread(executor.submit_sync, key, job, timeout=0)]


class Held:
    """A key whose jobs wait for a gate and take all the room; behind them, who waits for more."""

    def __init__(self, executor: Running, *, jobs: int) -> None:
        self.executor = executor
        self.gate = asyncio.Event()
        self.jobs = jobs
        self.waiting: asyncio.Task[list[LocalTicket]]

    async def fill(self, *behind: tuple[str, Any]) -> None:
        for _ in range(self.jobs):
            await self.executor.submit("held", self.gate.wait, timeout=0)
        self.waiting = await self.stand_in_line(*(behind or [("held", fine)]))

    async def stand_in_line(self, *jobs: tuple[str, Any]) -> asyncio.Task[list[LocalTicket]]:
        waiting = asyncio.create_task(self.executor.submit_many(jobs, timeout=SECONDS_MAX))
        await asyncio.sleep(0)
        assert not waiting.done()
        return waiting

    async def end(self) -> list[LocalTicket]:
        self.gate.set()
        tickets = await asyncio.wait_for(self.waiting, SECONDS_MAX)
        for ticket in tickets:
            await ticket.result(SECONDS_MAX)
        return tickets


@pytest.mark.parametrize("submit", [alone, on_a_thread])
async def test_who_waits_for_room_keeps_no_other_key_from_a_free_slot(
    submit: Submit,
) -> None:
    """(004-03)"""
    async with Running(shards=1, slots=4, queue_size=2) as executor:
        held = Held(executor, jobs=3)
        await held.fill()
        for ticket in await submit(executor, "other", fine):
            assert await ticket.result(SECONDS_MAX) == "ran"
        assert not held.waiting.done()
        await held.end()


@pytest.mark.parametrize("submit", [alone, on_a_thread])
async def test_nobody_passes_who_waits_with_a_job_of_the_same_key(submit: Submit) -> None:
    ran: list[int] = []

    async def note(number: int) -> None:
        ran.append(number)

    async with Running(shards=1, slots=4, queue_size=2) as executor:
        held = Held(executor, jobs=3)
        await held.fill(("held", fine), ("both", partial(note, 1)))
        with pytest.raises(ShardFull):
            await submit(executor, "both", partial(note, 0))
        behind = await held.stand_in_line(("both", partial(note, 2)))
        assert executor.free_slots == 3
        await held.end()
        [last] = await behind
        await last.result(SECONDS_MAX)
    assert ran == [1, 2]


async def test_keys_that_fail_and_wait_to_run_again_are_bounded() -> None:
    """(004-25)"""
    async with Running(
        shards=2, slots=4, queue_size=10, depth_max=15, base_backoff=60, max_interval=60, jitter=0
    ) as executor:
        refused = 0
        for number in range(200):
            try:
                await executor.submit(f"key-{number}", Failing(1), timeout=0)
            except ShardFull:
                refused += 1
            await asyncio.sleep(0)
        assert refused >= 200 - 15 - executor.settings.slots
        assert sum(executor.depths()) <= 15 + executor.settings.slots
        await executor.stop(timeout=0)

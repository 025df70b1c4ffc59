"""The slots on the loop: as many as jobs wait, in the order in which they were given."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any

import pytest

import inturn
from inturn.executor import LocalTicket
from inturn.model.errors import JobCancelled
from tests.executor.support import SECONDS_MAX, Running, Steps, ended_with


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


async def test_jobs_that_wait_have_a_slot_each() -> None:
    running, may_end = 0, asyncio.Event()

    async def waits() -> None:
        nonlocal running
        running += 1
        await may_end.wait()

    async with Running(slots=20, queue_size=1_000) as executor:
        await executor.submit_many([(f"key {one}", waits) for one in range(50)])
        for _ in range(25):  # one begins, and has the next begin in the next turn of the loop
            await asyncio.sleep(0)
        assert running == 20
        may_end.set()
    assert running == 50


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


@pytest.mark.parametrize("seed", range(20))
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


def begun_at_once(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **named: Any
) -> asyncio.Task[Any]:
    """Make tasks as ``asyncio.eager_task_factory`` does, which came with Python 3.12."""
    try:
        yielded = work.send(None)
    except BaseException as error:
        ended: BaseException | None = error
    else:
        ended = None

    @types.coroutine
    def rest() -> Generator[Any, Any, Any]:
        if isinstance(ended, StopIteration):
            return ended.value
        if ended is not None:
            raise ended
        sent = yield yielded
        while True:
            try:
                sent = yield work.send(sent)
            except StopIteration as end:
                return end.value

    async def whole() -> Any:
        return await rest()

    return asyncio.Task(whole(), loop=loop, **named)


FACTORIES: list[Any] = [begun_at_once]
if sys.version_info >= (3, 12):
    FACTORIES.append(asyncio.eager_task_factory)


@pytest.mark.parametrize("factory", FACTORIES)
async def test_tasks_that_begin_as_they_are_made_change_nothing(factory: Any) -> None:
    ran: list[str] = []

    def job(name: str, waits: bool) -> Callable[[], Coroutine[Any, Any, str]]:
        async def run() -> str:
            if waits:
                await asyncio.sleep(0)
            ran.append(name)
            return name

        return run

    asyncio.get_running_loop().set_task_factory(factory)
    executor = inturn.Executor(slots=2)
    tickets = []
    for name in "abcdef":
        tickets.append(await executor.submit("one", job(name, waits=name in "bce")))
        assert not ran, "no job runs inside the submit that brings it"
    tickets.append(await executor.submit("two", lambda: "on a thread"))
    tickets.append(await executor.submit("two", lambda: job("g", waits=True)()))
    values = [await ticket.result(SECONDS_MAX) for ticket in tickets]
    await executor.stop()
    assert values == [*"abcdef", "on a thread", "g"]
    assert [name for name in ran if name != "g"] == [*"abcdef"]


async def test_four_times_as_many_jobs_that_run_take_four_times_the_steps_to_cancel() -> None:
    async def steps(jobs: int) -> float:
        async with Running(slots=jobs, error_handler=lambda failure: None) as executor:
            for number in range(jobs):
                await executor.submit(f"key-{number}", asyncio.Event().wait)
            while len(executor._lanes.slots.on_loop) < jobs:  # noqa: ASYNC110 - until all wait
                await asyncio.sleep(0)
            with Steps() as steps:
                await executor.stop(timeout=0)
            return steps.count / jobs

    few, many = await steps(100), await steps(400)
    assert many < few * 2, f"{few:.0f} steps for each of 100, {many:.0f} for each of 400"


@pytest.mark.parametrize("steps_before", [0, 1, 2])
@pytest.mark.parametrize("hogs", [False, True])
async def test_a_job_that_cancels_itself_is_struck_where_it_waits_next(
    steps_before: int, hogs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hogs:  # the slot lets others have a turn after each job
        monkeypatch.setattr("inturn.executor.slots.HOG_SECONDS_MAX", -1.0)

    async def job() -> None:
        for _ in range(steps_before):
            await asyncio.sleep(0)
        ticket: LocalTicket | None = executor.current()
        assert ticket is not None
        assert ticket.cancel()
        await asyncio.sleep(SECONDS_MAX)

    async def waits() -> str:
        await asyncio.sleep(0)
        return "waited"

    async with Running(slots=3) as executor:
        jobs = [(f"key-{number % 5}", (waits, job)[number % 2]) for number in range(40)]
        tickets = await executor.submit_many(jobs)
        async with asyncio.timeout(SECONDS_MAX / 2):
            for (_, run), ticket in zip(jobs, tickets, strict=True):
                if run is waits:
                    assert await ticket.result() == "waited"
                else:
                    assert isinstance(await ended_with(ticket), JobCancelled)

"""A job of a durable executor that would wait for itself is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import inturn
from inturn.model.errors import ResultTimeout, WaitsForItself
from tests.executor.durable_shop import Shop, running
from tests.executor.support import SECONDS_MAX


async def test_a_job_knows_itself_and_must_not_wait_for_itself(shop: Shop) -> None:
    errors: list[str] = []
    executor = inturn.Executor(app=shop.app)

    @shop.app.job(attempts=1)
    async def selfish() -> None:
        current = executor.current()
        assert current is not None
        assert current.key == "a"
        own = executor.run("a", shop.write.call("a", 1))
        for waiting in (executor.barrier("a"), executor.stop(), own):
            with pytest.raises(WaitsForItself) as raised:
                await asyncio.wait_for(waiting, SECONDS_MAX / 2)
            errors.append(raised.value.verb)
        await executor.run("b", shop.write.call("b", 1))
        await executor.run("a", shop.write_slowly.call("a", 2))  # its key's line in another queue

    assert executor.current() is None
    async with executor:
        await (await executor.submit("a", selfish.call())).result(SECONDS_MAX)
    assert errors == ["barrier", "stop", "run"]
    assert (shop.ran["a"], shop.ran["b"]) == ([2], [1]), "what was refused was not accepted"


@pytest.mark.parametrize("on_thread", [False, True], ids=["loop", "thread"])
async def test_a_job_must_not_wait_for_its_own_result_or_one_behind_it(
    shop: Shop, on_thread: bool
) -> None:
    tickets: list[inturn.Ticket[Any]] = []
    refused: list[bool] = []

    async def selfish() -> None:
        for ticket in tickets:
            try:
                await asyncio.wait_for(ticket.result(), SECONDS_MAX / 2)
                refused.append(False)
            except WaitsForItself:
                refused.append(True)
        with pytest.raises(ResultTimeout):  # who waits no longer than so may
            await tickets[-1].result(timeout=0)

    def selfish_too() -> None:
        for ticket in tickets:
            try:
                ticket.result_sync()
                refused.append(False)
            except WaitsForItself:
                refused.append(True)

    selfish_job = shop.app.job(kind="selfish", attempts=1)(selfish_too if on_thread else selfish)
    async with running(shop) as executor:
        before = await executor.submit("a", shop.write.call("a", 1))
        await executor.submit("a", shop.wait.call())
        own = await executor.submit("a", selfish_job.call())
        behind = await executor.submit("a", shop.write.call("a", 2))
        other = await executor.submit("b", shop.write.call("b", 3))
        tickets += [before, other, own, behind]
        shop.gate.set()
        await own.result(SECONDS_MAX)
    assert refused == [False, False, True, True]
    assert shop.ran["a"] == [1, 2]


@pytest.mark.parametrize("on_thread", [False, True], ids=["loop", "thread"])
async def test_what_a_job_leaves_behind_is_no_job_once_that_has_ended(
    shop: Shop, on_thread: bool
) -> None:
    executor = inturn.Executor(app=shop.app)
    home = asyncio.get_running_loop()
    has_ended, left = asyncio.Event(), asyncio.Event()
    refused: list[str] = []
    behind: list[asyncio.Task[None]] = []

    async def go_on() -> None:
        with pytest.raises(WaitsForItself):  # as the job does, as long as it runs
            await executor.barrier("a")
        refused.append("barrier")
        left.set()
        await has_ended.wait()
        assert executor.current() is None
        await executor.barrier("a")
        assert await executor.run("a", shop.write.call("a", 1)) == 1
        ticket = await executor.submit("a", shop.write.call("a", 2))
        assert await ticket.result() == 2
        await executor.stop()

    async def leave() -> None:
        behind.append(asyncio.create_task(go_on()))
        await left.wait()

    def leave_too() -> None:
        home.call_soon_threadsafe(lambda: behind.append(asyncio.create_task(go_on())))
        asyncio.run_coroutine_threadsafe(left.wait(), home).result(SECONDS_MAX)

    leaves = shop.app.job(kind="leaves", attempts=1)(leave_too if on_thread else leave)
    async with executor:
        await (await executor.submit("a", leaves.call())).result(SECONDS_MAX)
        has_ended.set()
        async with asyncio.timeout(SECONDS_MAX):
            await behind[0]
    assert refused == ["barrier"]
    assert shop.ran["a"] == [1, 2]

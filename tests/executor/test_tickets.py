"""A ticket: what it shows of itself, what it lets go of, and who must not wait for it."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from inturn.executor import LocalTicket
from inturn.model.errors import InvalidSetting, JobCancelled, WaitsForItself
from tests.executor.support import SECONDS_MAX, Failing, Running, ended_with


async def fine() -> str:
    return "fine"


async def test_a_ticket_shows_its_key_and_where_its_job_is_and_nothing_else() -> None:
    gate = asyncio.Event()
    async with Running(slots=1, queue_size=1_000, max_attempts=2, base_backoff=0) as executor:
        tickets = [await executor.submit("one", gate.wait) for _ in range(100)]
        failing = await executor.submit("two", Failing(2))
        await asyncio.sleep(0)
        assert repr(tickets[0]) == "<LocalTicket of key 'one', running, attempt 1>"
        assert repr(tickets[1]) == "<LocalTicket of key 'one', waiting>"
        gate.set()
        await ended_with(failing)
        assert repr(failing) == "<LocalTicket of key 'two', ended, attempt 2, with ValueError>"


@pytest.mark.parametrize("verb", ["run", "result", "result of itself", "barrier"])
async def test_a_job_is_refused_to_wait_for_what_stands_behind_it(verb: str) -> None:
    async with Running(slots=2, max_attempts=1) as executor:

        async def job() -> None:
            current = executor.current()
            assert current is not None
            if verb == "run":
                await executor.run("one", fine)
            elif verb == "result":
                await (await executor.submit("one", fine)).result()
            elif verb == "result of itself":
                await current.result()
            else:
                await executor.barrier("one")

        ticket = await executor.submit("one", job)
        with pytest.raises(WaitsForItself, match=f"of key 'one' called {verb.split()[0]}, "):
            await ticket.result(SECONDS_MAX)


async def test_a_job_on_a_thread_is_refused_to_wait_for_what_stands_behind_it() -> None:
    async with Running(slots=2, max_attempts=1) as executor:

        def job() -> None:
            executor.submit_sync("one", fine).result_sync()

        with pytest.raises(WaitsForItself, match="result_sync"):
            await asyncio.wait_for(executor.run("one", job), SECONDS_MAX)


async def test_a_job_may_wait_for_other_keys_other_executors_and_for_a_time() -> None:
    async with Running(slots=2, max_attempts=1) as executor, Running() as other:

        async def job() -> list[str]:
            behind = await executor.submit("one", fine)
            with pytest.raises(TimeoutError):
                await behind.result(0.001)
            behind.cancel()
            with pytest.raises(JobCancelled):
                await behind.result()
            return [await executor.run("two", fine), await other.run("one", fine)]

        assert await asyncio.wait_for(executor.run("one", job), SECONDS_MAX) == ["fine", "fine"]


@pytest.mark.parametrize("verb", ["result", "result_sync"])
async def test_how_long_to_wait_for_a_result_is_said_as_everywhere(verb: str) -> None:
    gate = asyncio.Event()

    async def wait(ticket: LocalTicket, timeout: Any) -> object:
        if verb == "result":
            return await ticket.result(timeout)
        return await asyncio.to_thread(ticket.result_sync, timeout)

    async with Running() as executor:
        ticket = await executor.submit("one", gate.wait)
        for given, shown in (("10ms", "0.01 s"), (0, "0 s")):
            with pytest.raises(TimeoutError, match=f"has not ended within {shown}"):
                await wait(ticket, given)
        for wrong in ("soon", -1, math.nan):
            with pytest.raises(InvalidSetting, match="timeout"):
                await wait(ticket, wrong)
        gate.set()
        assert await wait(ticket, "10d") is True
        waiting = asyncio.create_task(wait(await executor.submit("two", gate.wait), 1e300))
        assert await asyncio.wait_for(waiting, SECONDS_MAX) is True

"""A ticket: what it shows of itself, what it lets go of, and who must not wait for it."""

from __future__ import annotations

import asyncio

import pytest

from inturn.model.errors import JobCancelled, WaitsForItself
from tests.executor.support import SECONDS_MAX, Running


async def fine() -> str:
    return "fine"


@pytest.mark.parametrize("verb", ["run", "result", "result of itself", "barrier"])
async def test_a_job_is_refused_to_wait_for_what_stands_behind_it(verb: str) -> None:
    async with Running(slots=2) as executor:

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
        assert ticket.attempts == 1, "it would be refused again"


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

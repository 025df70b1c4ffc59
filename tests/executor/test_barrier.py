"""A barrier waits for what came before it, and says if that failed.

Promise E5 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio

import pytest

from inturn.model.errors import EarlierFailure, WaitsForItself
from tests.executor.support import SECONDS_MAX, Failing, Running, ended_with


async def fine() -> None: ...


async def test_a_barrier_waits_for_earlier_jobs_only() -> None:
    """(004-16)"""
    first, later, other = asyncio.Event(), asyncio.Event(), asyncio.Event()
    async with Running() as executor:
        before = await executor.submit("one", first.wait)
        elsewhere = await executor.submit("two", other.wait)
        barrier = asyncio.create_task(executor.barrier("one"))
        await asyncio.sleep(0)
        after = await executor.submit("one", later.wait)
        await asyncio.sleep(0.01)
        assert not barrier.done()
        first.set()
        await asyncio.wait_for(barrier, SECONDS_MAX)
        assert before.ended
        assert not after.ended
        assert not elsewhere.ended
        later.set()
        other.set()


async def test_a_barrier_reports_an_earlier_failure_once() -> None:
    """(004-15)"""
    async with Running(max_attempts=1) as executor:
        await executor.submit("one", Failing(1, ValueError("first")))
        await executor.submit("one", Failing(1, KeyError("second")))
        await executor.submit("one", fine)
        with pytest.raises(EarlierFailure, match="2 jobs of key 'one'") as caught:
            await executor.barrier("one")
        assert (caught.value.failures, caught.value.error) == (2, "ValueError: first")
        await executor.barrier("one")
        await executor.barrier("two")


async def test_a_failure_is_reported_though_its_key_has_been_idle_since() -> None:
    """(004-15)"""
    async with Running(max_attempts=1) as executor:
        await ended_with(await executor.submit("one", Failing(1)))
        await (await executor.submit("one", fine)).result(SECONDS_MAX)
        assert executor.keys_busy == 0
        with pytest.raises(EarlierFailure):
            await executor.barrier("one")


async def test_a_failure_behind_the_barrier_is_not_its_business() -> None:
    """(004-15)"""
    gate = asyncio.Event()
    async with Running(max_attempts=1) as executor:
        await executor.submit("one", gate.wait)
        barrier = asyncio.create_task(executor.barrier("one"))
        await asyncio.sleep(0)
        await executor.submit("one", Failing(1))
        gate.set()
        await barrier
        with pytest.raises(EarlierFailure):
            await executor.barrier("one")


async def test_a_job_cannot_wait_for_itself() -> None:
    async with Running(max_attempts=1) as executor:

        async def job() -> None:
            await executor.barrier("other")
            await executor.barrier("one")

        error = await ended_with(await executor.submit("one", job))
        assert isinstance(error, WaitsForItself)
        assert "'one'" in str(error)

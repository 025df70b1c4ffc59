"""A barrier waits for what came before it, and says if that failed."""

from __future__ import annotations

import asyncio

import pytest

from inturn.model.errors import EarlierFailure, WaitsForItself
from tests.executor.support import SECONDS_MAX, Failing, Running, ended_with, jump


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


async def test_a_barrier_waits_for_every_earlier_job_also_for_those_that_wait() -> None:
    """(004-16)"""
    gates = [asyncio.Event() for _ in range(4)]
    async with Running() as executor:
        before = [await executor.submit("one", gate.wait) for gate in gates[:3]]
        barrier = asyncio.create_task(executor.barrier("one"))
        await asyncio.sleep(0)
        after = await executor.submit("one", gates[3].wait)
        for gate, ticket in zip(gates, before, strict=False):
            assert not barrier.done()
            gate.set()
            await ticket.result(SECONDS_MAX)
        await asyncio.wait_for(barrier, SECONDS_MAX)
        assert not after.ended
        gates[3].set()


async def test_a_barrier_of_a_key_with_nothing_in_line_returns_at_once() -> None:
    """(004-16)"""
    async with Running() as executor:
        await executor.barrier("never seen")
        await (await executor.submit("one", fine)).result(SECONDS_MAX)
        await executor.barrier("one")


async def test_a_barrier_needs_no_slot_and_no_room() -> None:
    """(004-16)"""
    gate = asyncio.Event()
    async with Running(shards=1, slots=1, queue_size=1, enqueue_timeout=0) as executor:
        await executor.submit("busy", gate.wait)
        waiting = await executor.submit("one", fine)
        barriers = [asyncio.create_task(executor.barrier("one")) for _ in range(3)]
        await asyncio.sleep(0)
        assert executor.depths() == [1]
        waiting.cancel()  # now nothing is before the barriers, though the slot is taken
        await asyncio.wait_for(asyncio.gather(*barriers), SECONDS_MAX)
        gate.set()


def test_a_barrier_waits_out_retries() -> None:
    """(004-16)"""

    async def main() -> None:
        async with Running(base_backoff=50, max_interval=50, jitter=0.0) as executor:
            ticket = await executor.submit("one", Failing(2))
            await executor.barrier("one")
            assert ticket.value == 3

    jump(main)


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

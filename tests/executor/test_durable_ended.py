"""A durable executor whose worker has ended says so to those who wait, and in the log."""

from __future__ import annotations

import asyncio
import logging

import pytest

import inturn
from inturn.model.errors import ExecutorClosed, HookFailed, ResultTimeout
from inturn.model.job import JobState
from inturn.worker.durable import DurableExecutor
from tests.executor.durable_shop import Shop, until
from tests.executor.support import SECONDS_MAX


@pytest.mark.parametrize("verb", ["run", "result", "result_sync", "barrier"])
async def test_nobody_waits_without_end_for_a_worker_that_could_not_begin(
    shop: Shop, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    may_fail = asyncio.Event()

    @shop.app.on_start
    async def connect() -> None:
        await may_fail.wait()
        raise OSError("no route to host")

    executor = inturn.Executor(app=shop.app)
    ticket = await executor.submit("a", shop.write.call("a", 1))
    waiting = asyncio.create_task(_waits(executor, ticket, verb, shop))
    await until(lambda: len(executor._ends.awaited) == (2 if verb == "run" else 1))
    may_fail.set()
    async with asyncio.timeout(SECONDS_MAX):
        with pytest.raises(
            ExecutorClosed, match=r"no route to host\. .* is in the store\."
        ) as told:
            await waiting
    assert isinstance(told.value.__cause__, HookFailed)
    assert (await ticket.status()).state is JobState.WAITING
    with pytest.raises(ResultTimeout):  # others may run it, and this wait has an end
        await ticket.result(timeout=0)
    with pytest.raises(HookFailed):
        await executor.stop()
    said = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert [one.name for one in said] == ["inturn.executor"], "it is said once"
    assert "no route to host" in said[0].getMessage()


async def test_what_ended_before_its_worker_did_has_its_result(shop: Shop) -> None:
    async with inturn.Executor(app=shop.app) as executor:
        ticket = await executor.submit("a", shop.write.call("a", 1))
    assert await ticket.result() == 1


async def test_a_run_whose_job_a_stop_has_left_is_told_that_nobody_runs_it(shop: Shop) -> None:
    executor = inturn.Executor(app=shop.app)
    running = asyncio.create_task(executor.run("a", shop.wait.call()))
    await until(lambda: executor.keys_busy == 1)
    await executor.stop(timeout=0)
    async with asyncio.timeout(SECONDS_MAX):
        with pytest.raises(ExecutorClosed, match=r"worker has ended\. What was accepted is in the"):
            await running


async def _waits(
    executor: DurableExecutor, ticket: inturn.Ticket[int], verb: str, shop: Shop
) -> None:
    if verb == "run":
        await executor.run("b", shop.write.call("b", 2))
    elif verb == "barrier":
        await executor.barrier("a")
    elif verb == "result":
        await ticket.result()
    else:
        await asyncio.to_thread(ticket.result_sync)

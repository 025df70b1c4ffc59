"""Submitters of a durable executor that are cancelled, more than once: no job of theirs is left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inturn.model.errors import BadInput, StoreUnavailable
from inturn.model.job import JobState
from inturn.queue.sending import send
from inturn.queue.ticket import Ticket
from inturn.worker import intake
from inturn.worker.durable import DurableExecutor
from tests.executor.durable_shop import Shop, running, until
from tests.executor.support import SECONDS_MAX


class Slow:
    """Something that is called, and goes on when it may."""

    def __init__(self) -> None:
        self.is_called, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def wait(self) -> None:
        self.is_called.set()
        await self.may_go_on.wait()


@pytest.fixture
def slow_answer(monkeypatch: pytest.MonkeyPatch) -> Slow:
    """The way back of the store's answer to who submits: the job is in the store before."""
    slow = Slow()

    async def send_and_wait(*given: Any, **options: Any) -> Any:
        tickets = await send(*given, **options)
        await slow.wait()
        return tickets

    monkeypatch.setattr(intake, "send", send_and_wait)
    return slow


@pytest.fixture
def slow_cancel(monkeypatch: pytest.MonkeyPatch) -> Slow:
    slow, cancel = Slow(), Ticket.cancel

    async def wait_and_cancel(*given: Any, **options: Any) -> Any:
        await slow.wait()
        return await cancel(*given, **options)

    monkeypatch.setattr(Ticket, "cancel", wait_and_cancel)
    return slow


async def hold(shop: Shop, key: str) -> None:
    """Let nothing of a key begin."""
    [ticket] = await shop.app.submit_many([shop.wait.using(key=key).call()])
    await until(lambda: is_in(shop, ticket.id, JobState.RUNNING))


async def is_in(shop: Shop, id: Any, state: JobState) -> bool:
    return (await shop.app.run(lambda store: store.job(id))).state is state


async def cancelled_again(waiting: asyncio.Future[Any]) -> None:
    """Cancel who was cancelled before and has not ended: then it ends at once."""
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    async with asyncio.timeout(SECONDS_MAX):
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_submitter_who_is_cancelled_twice_takes_its_job_back_all_the_same(
    shop: Shop, slow_answer: Slow
) -> None:
    async with running(shop, slots=1) as executor:
        await hold(shop, "a")
        call = shop.write.call("a", 1)
        submitting = asyncio.create_task(executor.submit("a", call))
        await slow_answer.is_called.wait()
        submitting.cancel()
        await cancelled_again(submitting)
        assert await is_in(shop, call.id, JobState.WAITING)
        assert call.id in executor._ends.awaited, "it is on its way still"
        with pytest.raises(BadInput, match="was submitted before"):
            await executor.submit("a", call)
        slow_answer.may_go_on.set()
        await until(lambda: is_in(shop, call.id, JobState.CANCELLED))
        await until(lambda: not executor._ends.awaited)
        assert not executor._ends.arriving
    assert shop.ran["a"] == []


async def test_a_stop_waits_until_what_was_given_up_is_taken_back(
    shop: Shop, slow_answer: Slow
) -> None:
    async with running(shop, slots=1) as executor:
        await hold(shop, "a")
        call = shop.write.call("a", 1)
        submitting = asyncio.create_task(executor.submit("a", call))
        await slow_answer.is_called.wait()
        submitting.cancel()
        await cancelled_again(submitting)
        stopping = asyncio.create_task(executor.stop())
        await asyncio.wait([stopping], timeout=0.6)  # longer than it takes to look
        assert not stopping.done()
        slow_answer.may_go_on.set()
        await until(lambda: is_in(shop, call.id, JobState.CANCELLED))
        shop.gate.set()
        await stopping
    assert shop.ran["a"] == []


async def test_who_waits_for_a_run_and_is_cancelled_twice_takes_its_job_along(
    shop: Shop, slow_cancel: Slow
) -> None:
    async with running(shop, slots=1) as executor:
        await hold(shop, "a")
        call = shop.write.call("a", 1)
        waiting = asyncio.create_task(executor.run("a", call))
        await until(lambda: len(executor._ends.awaited) == 1 and not executor._ends.arriving)
        waiting.cancel()
        await slow_cancel.is_called.wait()
        await cancelled_again(waiting)
        slow_cancel.may_go_on.set()
        await until(lambda: is_in(shop, call.id, JobState.CANCELLED))
    assert shop.ran["a"] == []


async def test_who_waits_for_a_run_on_a_loop_that_ends_takes_its_job_along(
    shop: Shop, slow_cancel: Slow
) -> None:
    home = asyncio.get_running_loop()
    call = shop.write.call("a", 1)

    async def elsewhere(executor: DurableExecutor) -> None:
        waiting = asyncio.create_task(executor.run("a", call))
        await until(lambda: len(executor._ends.awaited) == 1 and not executor._ends.arriving)
        waiting.cancel()
        await until(slow_cancel.is_called.is_set)
        await cancelled_again(waiting)

    async with running(shop, slots=1) as executor:
        await hold(shop, "a")
        await asyncio.to_thread(asyncio.run, elsewhere(executor))
        home.call_soon(slow_cancel.may_go_on.set)
        await until(lambda: is_in(shop, call.id, JobState.CANCELLED))
    assert shop.ran["a"] == []


async def test_what_had_begun_when_its_submitter_was_cancelled_is_waited_for(
    shop: Shop, slow_answer: Slow
) -> None:
    async with running(shop, slots=1) as executor:
        call = shop.wait.call()
        submitting = asyncio.create_task(executor.submit("a", call))
        await slow_answer.is_called.wait()
        await until(lambda: is_in(shop, call.id, JobState.RUNNING))
        submitting.cancel()
        slow_answer.may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await submitting
        assert list(executor._ends.awaited) == [call.id]
        shop.gate.set()
        await until(lambda: not executor._ends.awaited)
        assert await is_in(shop, call.id, JobState.DONE)


async def test_who_is_cancelled_while_the_store_is_away_is_cancelled(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("the store is away.")

    async with running(shop, slots=1) as executor:
        await hold(shop, "a")
        waiting = asyncio.create_task(executor.run("a", shop.write.call("a", 1)))
        await until(lambda: len(executor._ends.awaited) == 1 and not executor._ends.arriving)
        monkeypatch.setattr(Ticket, "cancel", fail)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert len(executor._ends.awaited) == 1, "it was not taken back"
        shop.gate.set()
    assert shop.ran["a"] == [1]

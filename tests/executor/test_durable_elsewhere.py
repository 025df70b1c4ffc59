"""Submitters of a durable executor on other loops, that are cancelled: a call is one job, once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from inturn.model.errors import BadInput, UnknownJob
from inturn.model.job import JobState
from inturn.queue.job import Call
from inturn.queue.sending import send
from inturn.worker import durable, intake
from inturn.worker.durable import DurableExecutor
from tests.executor.durable_shop import Shop, running, until
from tests.executor.support import SECONDS_MAX, Seen


async def state_of(shop: Shop, call: Call[Any]) -> JobState | None:
    try:
        return (await shop.app.run(lambda store: store.job(call.id))).state
    except UnknownJob:
        return None


async def elsewhere(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Await something on another loop, which ends then."""
    return await asyncio.to_thread(lambda: asyncio.run(work()))


async def cancelled(waiting: asyncio.Future[Any]) -> None:
    waiting.cancel()
    async with asyncio.timeout(SECONDS_MAX):
        with pytest.raises(asyncio.CancelledError):
            await waiting


@pytest.fixture
def pause(shop: Shop) -> Callable[[], Coroutine[Any, Any, None]]:
    async def pause() -> None:
        await shop.app.run(lambda store: store.pause("default", by="ann"))

    return pause


@pytest.mark.parametrize("is_patient", [True, False])
async def test_a_call_is_not_accepted_again_while_it_is_taken_back(
    shop: Shop,
    pause: Callable[[], Coroutine[Any, Any, None]],
    monkeypatch: pytest.MonkeyPatch,
    is_patient: bool,
) -> None:
    """Its submitter waits until it is known what became of it, or, impatient, does not."""
    home, call = asyncio.get_running_loop(), shop.write.call("a", 1)
    is_accepted, may_answer = threading.Event(), asyncio.Event()

    async def send_and_wait(*given: Any) -> Any:
        monkeypatch.setattr(intake, "send", send)  # the next one is quick
        tickets = await send(*given)
        is_accepted.set()
        await may_answer.wait()
        return tickets

    async def submit_twice() -> Any:
        submitting = asyncio.ensure_future(executor.submit("a", call))
        await until(is_accepted.is_set)
        if is_patient:
            home.call_soon_threadsafe(home.call_later, 0.1, may_answer.set)
        await cancelled(submitting)
        try:
            return await executor.submit("a", call)
        except BadInput as refused:
            return refused

    monkeypatch.setattr(intake, "send", send_and_wait)
    if not is_patient:
        monkeypatch.setattr(durable, "LEFT_SECONDS_MAX", 0.05)
    async with running(shop) as executor:
        await pause()
        end = await elsewhere(submit_twice)
        may_answer.set()
        await until(lambda: not executor._ends.arriving)
        assert await state_of(shop, call) is JobState.CANCELLED
        assert isinstance(end, BadInput), "accepted, and then cancelled by its own first attempt"
        assert "was submitted before" in str(end)
        with pytest.raises(BadInput, match="was submitted before"):
            await executor.submit("a", call)


async def test_a_job_whose_submitter_is_cancelled_as_its_ticket_comes_is_taken_back(
    shop: Shop, pause: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    seen, call = Seen(), shop.write.call("a", 1)
    is_answered = threading.Event()
    submit = DurableExecutor._submit

    async def submit_and_say(*given: Any) -> Any:
        tickets = await submit(*given)
        asyncio.get_running_loop().call_later(0.01, is_answered.set)  # after it has returned
        return tickets

    async def give_up() -> None:
        submitting = asyncio.ensure_future(executor.submit("a", call))
        await asyncio.sleep(0)
        assert is_answered.wait(SECONDS_MAX)  # and this loop has not seen it
        await cancelled(submitting)
        with pytest.raises(BadInput, match="was submitted before"):
            await executor.submit("a", call)

    async with running(shop, error_handler=seen.handle) as executor:
        await pause()
        executor._submit = submit_and_say.__get__(executor)  # type: ignore[method-assign]
        await elsewhere(give_up)
        assert await state_of(shop, call) is JobState.CANCELLED
        await until(lambda: not executor._ends.awaited)
    assert len(seen.failures) == 1


async def test_what_is_cancelled_while_it_waits_for_room_may_be_submitted_again(
    shop: Shop, pause: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    call = shop.write.call("a", 1)

    async def submit_twice() -> Any:
        submitting = asyncio.ensure_future(executor.submit("a", call, timeout=SECONDS_MAX))
        room = executor._room
        assert room is not None
        await until(lambda: bool(room._lines))
        await cancelled(submitting)
        await first.cancel()
        return await executor.submit("a", call, timeout=SECONDS_MAX)

    async with running(shop, queue_size=1) as executor:
        await pause()
        first = await executor.submit("a", shop.write.call("a", 0))
        ticket = await elsewhere(submit_twice)
        assert ticket.id == call.id
        await shop.app.run(lambda store: store.resume("default"))
        assert await ticket.result() == 1


async def test_what_is_cancelled_before_it_came_to_the_executor_may_be_submitted_again(
    shop: Shop,
) -> None:
    call = shop.write.call("a", 1)
    is_blocked, may_go_on = threading.Event(), threading.Event()

    def block() -> None:
        is_blocked.set()
        may_go_on.wait(SECONDS_MAX)

    async def submit_twice() -> Any:
        await until(is_blocked.is_set)
        submitting = asyncio.ensure_future(executor.submit("a", call))
        await asyncio.sleep(0)
        await cancelled(submitting)
        may_go_on.set()
        return await executor.submit("a", call)

    async with running(shop) as executor:
        asyncio.get_running_loop().call_later(0.02, block)
        ticket = await elsewhere(submit_twice)
        assert ticket.id == call.id
        assert await ticket.result() == 1
    assert shop.ran["a"] == [1]

"""What a durable executor waits for: what will end, and nothing that only others can lead on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import inturn
from inturn.model import events
from inturn.model.errors import ExecutorClosed, HookFailed
from inturn.model.job import JobState, NewJob
from inturn.model.worker import WorkerView
from inturn.policy.retry import RetryPolicy
from inturn.queue.sending import send
from inturn.store.protocol import Store
from inturn.worker import awaited, intake
from inturn.worker.durable import DurableExecutor
from tests.executor.durable_shop import Shop, running, until
from tests.executor.support import SECONDS_MAX, Seen


async def test_a_stop_waits_for_what_is_on_its_way_into_the_store(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrives, looked = asyncio.Event(), asyncio.Event()
    look = awaited.Awaited._look

    async def send_slowly(*given: Any, **options: Any) -> Any:
        await arrives.wait()
        return await send(*given, **options)

    async def look_and_say(*given: Any) -> Any:
        looked.set()
        return await look(*given)

    monkeypatch.setattr(intake, "send", send_slowly)
    monkeypatch.setattr(awaited.Awaited, "_look", look_and_say)
    async with running(shop) as executor:
        submitting = asyncio.create_task(executor.submit("a", shop.write.call("a", 1)))
        await until(lambda: len(executor._ends.awaited) == 1)
        await shop.app.run(executor._awaited.reap)
        assert len(executor._ends.awaited) == 1, "it is forgotten though it was not seen to end"
        stopping = asyncio.create_task(executor.stop())
        await asyncio.wait({asyncio.create_task(looked.wait()), stopping}, timeout=0.5)
        arrives.set()
        ticket = await submitting
        await ended(stopping)
        assert (await ticket.status()).state is JobState.DONE
    assert shop.ran["a"] == [1]


async def test_an_executor_whose_worker_could_not_begin_says_why_in_whole_sentences(
    shop: Shop,
) -> None:
    @shop.app.on_start
    async def connect() -> None:
        raise OSError("no route to host")

    executor = inturn.Executor(app=shop.app)
    executor.start()
    await until(lambda: executor._running is not None and executor._running.done())
    with pytest.raises(
        ExecutorClosed, match=r"no route to host\. Nothing was claimed\. What was accepted is in"
    ):
        await executor.submit("a", shop.write.call("a", 1))
    with pytest.raises(HookFailed):
        await executor.stop()


async def test_a_stop_refuses_those_who_wait_for_room_at_once(shop: Shop) -> None:
    async with running(shop, slots=1, queue_size=1) as executor:
        await executor.submit("a", shop.wait.call())
        await until(lambda: executor.keys_busy == 1)
        await executor.submit("a", shop.write.call("a", 1), timeout=SECONDS_MAX)
        waiting = asyncio.create_task(executor.submit("b", shop.write.call("b", 2), timeout="1h"))
        await until(lambda: bool(executor._room is not None and executor._room._lines))
        stopping = asyncio.create_task(executor.stop())
        with pytest.raises(ExecutorClosed):  # though there is no room yet
            await ended(waiting)
        shop.gate.set()
        await stopping
    assert (shop.ran["a"], shop.ran["b"]) == ([1], [])


async def test_who_found_room_while_the_executor_was_stopped_is_refused(shop: Shop) -> None:
    async with running(shop) as executor:
        await executor.submit("a", shop.write.call("a", 1))
        room, asked, answers = executor._room, asyncio.Event(), asyncio.Event()
        assert room is not None
        read = room._read

        async def read_slowly() -> Any:
            asked.set()
            await answers.wait()
            return await read()

        room._read, room._read_at = read_slowly, float("-inf")
        submitting = asyncio.create_task(executor.submit("a", shop.write.call("a", 2)))
        await asked.wait()
        stopping = asyncio.create_task(executor.stop())
        await until(lambda: executor._is_stopped)
        answers.set()
        with pytest.raises(ExecutorClosed):
            await submitting
        await stopping
    assert shop.ran["a"] == [1]
    assert await states(shop) == [JobState.DONE]


async def test_what_stands_behind_a_job_that_nobody_runs_does_not_hold_up_a_stop(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="inturn")
    async with behind_a_stranger(shop) as executor:
        ticket = await executor.submit("a", shop.write.call("a", 1))
        await executor.submit("b", shop.write.call("b", 2))
        await executor.submit("c", shop.write.using(delay=3600).call("c", 3))
        await ended(executor.stop())
        assert (await ticket.status()).state is JobState.WAITING
        assert shop.ran["b"] == [2]
    [said] = [one for one in caplog.messages if "left in the store" in one]
    assert said.startswith("1 job is left in the store")  # what is delayed is where it should be
    assert "no live worker takes kind 'theirs' of queue 'default'" in said
    all_ended = [one for one in caplog.messages if "everything accepted has ended" in one]
    assert len(all_ended) == 1, "only of what its worker had in hand"


async def test_what_stands_behind_a_job_that_another_worker_takes_is_waited_for(
    shop: Shop, looks: list[bool]
) -> None:
    async with behind_a_stranger(shop) as executor:
        await executor.submit("a", shop.write.call("a", 1))
        await shop.app.run(lambda store: store.beat(ANOTHER))
        stopping = asyncio.create_task(executor.stop())
        await until(lambda: len(looks) >= 2 or stopping.done())
        assert not stopping.done()
        await cancel_stranger(shop)
        await ended(stopping)
    assert shop.ran["a"] == [1]


async def test_a_stop_ends_at_its_timeout_whoever_is_waited_for(
    shop: Shop, looks: list[bool]
) -> None:
    seen = Seen()
    async with behind_a_stranger(shop, listeners=[seen.listen]) as executor:
        ticket = await executor.submit("a", shop.write.call("a", 1))
        await shop.app.run(lambda store: store.beat(ANOTHER))
        given_up = asyncio.create_task(executor.stop())
        await until(lambda: bool(looks))
        given_up.cancel()
        await asyncio.wait([given_up])
        assert not seen.of(events.Stopped)
        await ended(executor.stop(timeout=0.05))
        assert (await ticket.status()).state is JobState.WAITING
        await executor.stop()
    assert len(seen.of(events.Stopped)) == 1


@pytest.mark.parametrize("is_retrying", [False, True], ids=["waiting", "retrying"])
async def test_a_key_that_a_person_paused_does_not_hold_up_a_stop(
    shop: Shop, is_retrying: bool
) -> None:
    shop.fails = {1: 1}
    later = RetryPolicy(attempts_max=3, base_seconds=60, cap_seconds=60, jitter=0.0)
    shop.write.retry = later if is_retrying else shop.write.retry
    async with running(shop) as executor:
        await executor.run("a", shop.write.call("a", 0))
        if not is_retrying:
            await pause_key(shop)
        ticket = await executor.submit("a", shop.write.call("a", 1))
        if is_retrying:
            await until(lambda: has_state(ticket, JobState.RETRYING))
            await pause_key(shop)
        await ended(executor.stop())
        wanted = JobState.RETRYING if is_retrying else JobState.WAITING
        assert (await ticket.status()).state is wanted


async def test_a_stop_does_not_wait_for_what_others_keep_it_busy_with(shop: Shop) -> None:
    @shop.app.job
    async def again(n: int) -> None:
        await again.using(key="busy").submit(n + 1)

    async with running(shop) as executor:
        await executor.run("a", shop.write.call("a", 0))
        await pause_key(shop)
        await executor.submit("a", shop.write.call("a", 1))
        await again.using(key="busy").submit(0)
        await ended(executor.stop())
    assert shop.ran["a"] == [0]


async def test_a_barrier_behind_a_job_that_nobody_runs_says_so_and_can_be_ended(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "STUCK_SECONDS", 0.0)
    monkeypatch.setattr(awaited, "STILL_SECONDS", 0.01)

    def said() -> list[str]:
        return [one for one in caplog.messages if "a barrier of key 'a' waits" in one]

    async def give_up(executor: DurableExecutor, count: int) -> None:
        barrier = asyncio.create_task(executor.barrier("a"))
        await until(lambda: len(said()) >= count)
        await asyncio.wait([barrier], timeout=0.1)  # it looks again, and does not say so again
        barrier.cancel()
        with pytest.raises(asyncio.CancelledError):
            await barrier

    async with behind_a_stranger(shop) as executor:
        await executor.submit("a", shop.write.call("a", 1))
        await give_up(executor, 1)
        await asyncio.to_thread(asyncio.run, give_up(executor, 2))  # on a loop not the app's
        assert len(said()) == 2, "once for each"
        assert all("no live worker takes kind 'theirs' of queue 'default'" in one for one in said())
        barrier = asyncio.create_task(executor.barrier("a"))
        await cancel_stranger(shop)
        await ended(barrier)
    assert shop.ran["a"] == [1]


async def test_a_barrier_says_nothing_of_jobs_that_are_merely_slow(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "STUCK_SECONDS", 0.0)
    monkeypatch.setattr(awaited, "STILL_SECONDS", 0.01)
    async with running(shop) as executor:
        await executor.submit("a", shop.wait.call())
        await executor.submit("a", shop.write.call("a", 1))
        barrier = asyncio.create_task(executor.barrier("a"))
        await asyncio.wait([barrier], timeout=0.2)
        shop.gate.set()
        await ended(barrier)
    assert not [one for one in caplog.messages if "barrier" in one]


ANOTHER = WorkerView(
    id="another", host="h", pid=1, version="1", queues=("default",), kinds=("theirs",)
)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What a stop found each time it looked whether what it waits for will end."""
    found: list[bool] = []
    moves = awaited.Awaited._moves

    async def look(*given: Any) -> bool:
        found.append(await moves(*given))
        return found[-1]

    monkeypatch.setattr(awaited.Awaited, "_moves", look)
    return found


@asynccontextmanager
async def behind_a_stranger(shop: Shop, **options: Any) -> AsyncIterator[DurableExecutor]:
    """A durable executor, and a job at the head of key "a" of a kind that its app does not have."""
    await shop.app.run(lambda store: store.enqueue([NewJob(kind="theirs", key="a")]))
    async with running(shop, **options) as executor:
        yield executor


async def pause_key(shop: Shop) -> None:
    await shop.app.run(lambda store: store.pause("default", key="a", by="ann"))


async def cancel_stranger(shop: Shop) -> None:
    async def cancel(store: Store) -> None:
        for view in (await store.jobs(kind="theirs")).rows:
            await store.cancel(view.job.id, by="ann")

    await shop.app.run(cancel)


async def states(shop: Shop) -> list[JobState]:
    return [view.state for view in (await shop.app.run(lambda store: store.jobs())).rows]


async def has_state(ticket: inturn.Ticket[Any], state: JobState) -> bool:
    return (await ticket.status()).state is state


async def ended(waiting: Awaitable[Any]) -> None:
    """Wait for something that must end by itself."""
    await asyncio.wait_for(waiting, SECONDS_MAX / 4)

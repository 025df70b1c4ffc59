"""What a job may be, where it runs, and what it sees around it."""

from __future__ import annotations

import asyncio
import functools
import threading
from contextvars import ContextVar
from typing import Any

import pytest

import inturn
from inturn.model.errors import BadInput, WaitsForItself
from tests.executor.support import SECONDS_MAX, Failing, Running

REQUEST: ContextVar[str] = ContextVar("REQUEST", default="nobody's")


async def on_loop(value: str = "loop") -> str:
    await asyncio.sleep(0)
    asyncio.get_running_loop()
    return f"{value} {threading.current_thread().name}"


def on_thread(value: str = "thread") -> str:
    return f"{value} {threading.current_thread().name}"


class AsyncRun:
    async def run(self) -> str:
        return await on_loop("object")


class SyncRun:
    def run(self) -> str:
        return on_thread("object")


@pytest.mark.parametrize(
    ("job", "value", "thread"),
    [
        (on_loop, "loop", "MainThread"),
        (on_thread, "thread", "inturn-slot"),
        (functools.partial(on_loop, "partial"), "partial", "MainThread"),
        (functools.partial(on_thread, "partial"), "partial", "inturn-slot"),
        (AsyncRun(), "object", "MainThread"),
        (SyncRun(), "object", "inturn-slot"),
        (lambda: on_thread("lambda"), "lambda", "inturn-slot"),
        (lambda: on_loop("lambda"), "lambda", "MainThread"),  # its coroutine goes to the loop
    ],
)
async def test_an_async_def_runs_on_the_loop_and_a_def_on_a_thread(
    job: Any, value: str, thread: str
) -> None:
    async with Running() as executor:
        got = await executor.run("one", job)
        assert got.startswith(f"{value} {thread}")


@pytest.mark.parametrize("job", [None, object(), SyncRun])
async def test_what_is_no_job_is_refused(job: Any) -> None:
    async with Running() as executor:
        with pytest.raises(BadInput, match="a job must be"):
            await executor.submit("one", job)
        assert executor.keys_busy == 0


def needs_copies(*, copies: int) -> None: ...


@pytest.mark.parametrize(
    ("job", "needs"),
    [
        (needs_copies, r"<function needs_copies .*> needs 'copies'\."),
        (lambda a, b, c=3, *, d, e=5: None, r"<lambda> .* needs 'a', 'b', 'd'\."),
    ],
)
async def test_what_needs_arguments_is_refused_when_it_is_submitted(job: Any, needs: str) -> None:
    async with Running() as executor:
        for refused in (executor.submit("one", job), executor.submit_many([("one", job)])):
            with pytest.raises(BadInput, match=needs):
                await refused
        with pytest.raises(BadInput, match=r"functools\.partial"):
            executor.submit_sync("one", job)
        assert executor.keys_busy == 0


async def test_what_has_its_arguments_is_accepted() -> None:
    jobs: list[Any] = [
        functools.partial(needs_copies, copies=1),
        functools.partial(lambda a, b, *, d: None, 1, b=2, d=3),
        functools.partial(print, end=""),
    ]
    async with Running() as executor:
        for job in jobs:
            await executor.run("one", job)


async def test_a_coroutine_is_refused_because_it_cannot_run_twice() -> None:
    async with Running() as executor:
        with pytest.raises(BadInput, match="may run more than once"):
            await executor.submit("one", on_loop())  # type: ignore[call-overload]


async def test_a_lambda_around_a_coroutine_is_retried_whole() -> None:
    job = Failing(2)
    async with Running(base_backoff=0) as executor:
        assert await executor.run("one", lambda: job.run()) == 3


async def test_a_job_sees_the_context_of_its_submitter_and_leaks_none_of_its_own() -> None:
    async def looks() -> str:
        await asyncio.sleep(0)
        seen = REQUEST.get()
        REQUEST.set("a job's own")
        await asyncio.sleep(0)
        assert REQUEST.get() == "a job's own"
        return seen

    async def looks_at_once() -> str:
        return looks_on_thread()

    def looks_on_thread() -> str:
        seen = REQUEST.get()
        REQUEST.set("a job's own")
        return seen

    async with Running(slots=1) as executor:
        tickets = []
        for job in (looks, looks_at_once, looks_on_thread):
            for name in ("first", "second"):
                REQUEST.set(name)
                tickets.append(await executor.submit("one", job))
        REQUEST.set("third")
        tickets += await executor.submit_many([("one", looks), ("one", looks)])
        seen = [await ticket.result(SECONDS_MAX) for ticket in tickets]
        assert seen == ["first", "second"] * 3 + ["third", "third"]
        assert REQUEST.get() == "third"


async def test_a_job_may_submit_more_jobs() -> None:
    async with Running(slots=3) as executor:

        def deeper() -> str:
            return str(executor.submit_sync("three", on_thread).result_sync(SECONDS_MAX))[:6]

        async def job() -> str:
            return str(await executor.run("two", deeper))

        assert await executor.run("one", job, timeout=1) == "thread"


async def test_a_job_knows_its_ticket() -> None:
    async with Running() as executor, Running() as other:

        async def job() -> object:
            assert other.current() is None
            return executor.current()

        def job_on_thread() -> object:
            assert other.current() is None
            return executor.current()

        for one in (job, job_on_thread):
            ticket = await executor.submit("one", one)
            assert await ticket.result(SECONDS_MAX) is ticket
        assert executor.current() is None
        assert await asyncio.to_thread(executor.current) is None


async def test_a_loop_must_not_wait_for_itself() -> None:
    gate = asyncio.Event()
    async with Running(shards=1, queue_size=1) as executor:
        ticket = await executor.submit("one", gate.wait)
        with pytest.raises(WaitsForItself, match="block"):
            ticket.result_sync()
        executor.submit_sync("one", on_loop)
        with pytest.raises(inturn.model.errors.ShardFull):
            executor.submit_sync("one", on_loop, timeout=SECONDS_MAX)  # on the loop: tries once
        gate.set()
        assert await asyncio.to_thread(ticket.result_sync) is True
        assert ticket.result_sync() is True  # ended: nothing to wait for

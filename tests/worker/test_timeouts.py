"""Timeouts end a handler wherever it runs; one that cannot be ended is named, and never doubled."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from inturn.model.errors import JobFailed
from inturn.model.job import DeadLetter, NewJob
from inturn.policy.retry import RetryPolicy
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.worker import watchdog
from inturn.worker.handler_threads import Deadline, TimeIsUp
from tests.worker.conftest import prolonged, until, working

ONCE = RetryPolicy(attempts_max=1)
TWICE = RetryPolicy(attempts_max=2, base_seconds=0.01, jitter=0.0)
PROLONGED = {"lease_seconds": 60.0, "sweep_seconds": 0.2}  # a heartbeat every 200 ms


async def test_a_def_that_runs_python_is_ended_at_its_timeout(app: App) -> None:
    threads: list[int] = []
    cleaned: list[bool] = []

    @app.job(timeout=0.2, retry=TWICE)
    def spins() -> None:
        threads.append(threading.get_ident())
        try:
            while True:
                try:
                    sum(range(100))
                except Exception:
                    pytest.fail("what ends a handler is no Exception")
        finally:
            cleaned.append(True)

    @app.job
    def says() -> str:
        return "alive"

    async with working(app, concurrency=1):
        with pytest.raises(JobFailed, match=r"failed 2 times.*TimeoutError: it took longer than"):
            await (await spins.submit()).result(timeout=60)
        assert await (await says.submit()).result(timeout=60) == "alive"
    assert len(threads) == len(cleaned) == 2


async def test_a_def_in_a_c_call_is_named_and_settled_only_when_it_has_ended(
    app: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "GRACE_SECONDS", 0.1)
    running: list[int] = []
    most: list[int] = []
    may_end = [threading.Event(), threading.Event()]
    tokens: list[int] = []

    @app.job(timeout=0.1, retry=TWICE)
    def sleeps(ctx: Context) -> None:
        running.append(1)
        most.append(len(running))
        tokens.append(ctx.token)
        try:
            may_end[ctx.attempt - 1].wait()
        finally:
            running.pop()

    async with working(app, **PROLONGED):
        ticket = await sleeps.submit()
        for attempt in (1, 2):
            named = "'sleeps' was to end after 0.1 s and has not"
            await until(lambda: caplog.text.count(named) == attempt)  # noqa: B023
            await prolonged(app, tokens[-1])
            assert (await ticket.status()).state == "running"
            may_end[attempt - 1].set()
        assert "Use process=True" in caplog.text
        with pytest.raises(JobFailed, match=r"TimeoutError: it took longer than 0\.1 s"):
            await ticket.result(timeout=60)
    assert most == [1, 1]


async def test_an_async_def_that_swallows_its_cancellation_is_named_and_keeps_its_job(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    may_end = asyncio.Event()
    tokens: list[int] = []
    running: list[int] = []
    most: list[int] = []

    @app.job(timeout=0.1, retry=ONCE)
    async def stubborn(ctx: Context) -> str:
        tokens.append(ctx.token)
        running.append(1)
        most.append(len(running))
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        running.pop()
        return "done after all"

    async with working(app, concurrency=1, **PROLONGED):
        ticket = await stubborn.submit()
        await until(lambda: "'stubborn' was to end after 0.1 s and has not" in caplog.text)
        assert "it caught its CancelledError" in caplog.text
        await prolonged(app, tokens[0])
        assert (await ticket.status()).state == "running"
        may_end.set()
        with pytest.raises(JobFailed, match=r"TimeoutError: it took longer than 0\.1 s"):
            await ticket.result(timeout=60)
    assert most == [1]


async def test_the_declared_timeout_counts_for_what_was_submitted_without_one(app: App) -> None:
    """By SQL, or from a shell: by someone who does not know the handler."""

    @app.job(timeout=0.1)
    async def sleeps() -> None:
        await asyncio.sleep(120)

    @app.job(timeout=0.1)
    def spins() -> None:
        while True:
            sum(range(100))

    new = [NewJob(kind=kind, attempts_max=1) for kind in ("sleeps", "spins")]
    await app.run(lambda store: store.enqueue(new))

    async def letters() -> Sequence[DeadLetter]:
        return (await app.run(lambda store: store.dead_letters())).rows

    async def are_dead() -> bool:
        return len(await letters()) == len(new)

    async with working(app, concurrency=2):
        await until(are_dead)
    said = [letter.errors[-1].error for letter in await letters()]
    assert all("it took longer than 0.1 s" in one for one in said)


async def test_a_handlers_own_timeout_error_is_its_own(app: App) -> None:
    @app.job(timeout=30, retry=ONCE)
    async def work() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(30)

    async with working(app):
        with pytest.raises(JobFailed) as failed:
            await (await work.submit()).result(timeout=60)
    assert "it took longer" not in str(failed.value)


def test_a_deadline_never_strikes_what_its_thread_runs_next() -> None:
    """Thousands of calls that end just when they are struck: each is caught where it belongs."""
    deadlines: list[Deadline] = []
    stopped = threading.Event()
    caught = {"in time": 0, "struck": 0}

    def strike() -> None:
        while not stopped.is_set():
            if deadlines:
                deadlines[-1].strike()

    def count_to(n: int) -> Callable[[], int]:
        return lambda: sum(range(n))

    striker = threading.Thread(target=strike)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    striker.start()
    try:
        for n in range(20_000):
            deadline = Deadline("kind", 0.0)
            deadlines[:] = [deadline]
            try:
                deadline.call(count_to(n % 2_000))
                caught["in time"] += 1
            except TimeIsUp:
                caught["struck"] += 1
            deadlines.clear()
            assert sum(range(50)) == 1225  # nothing may strike here
    finally:
        sys.setswitchinterval(interval)
        stopped.set()
        striker.join()
    assert sum(caught.values()) == 20_000
    assert caught["struck"] > 0


async def test_an_async_def_that_blocks_the_loop_past_its_timeout_has_failed(app: App) -> None:
    @app.job(attempts=1, timeout=0.1)
    async def blocker() -> None:
        time.sleep(0.3)  # noqa: ASYNC251

    async with working(app):
        with pytest.raises(JobFailed, match=r"took longer than 0\.1 s"):
            await (await blocker.submit()).result(timeout=60)

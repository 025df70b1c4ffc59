"""An executor with a store behind it: the same verbs, and what it accepts is there to stay.

Promise E6 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, assert_type

import pytest

import inturn
from inturn.model import events
from inturn.model.errors import (
    BadInput,
    EarlierFailure,
    ExecutorClosed,
    HookFailed,
    InvalidName,
    InvalidSetting,
    JobFailed,
    QueueFull,
)
from inturn.model.job import JobState
from inturn.model.lane import OnDead, QueueSettings
from tests.executor.durable_shop import Shop, depth_of, running, until
from tests.executor.support import SECONDS_MAX, Seen


async def test_given_an_app_an_executor_is_durable(shop: Shop) -> None:
    async with inturn.Executor(app=shop.app) as executor:
        assert_type(executor, inturn.DurableExecutor)
        assert type(executor) is inturn.DurableExecutor
        ticket = await executor.submit("a", shop.write.call("a", 1))
        assert_type(ticket, inturn.Ticket[int])
        assert (await ticket.status()).job.key == "a"
        assert await ticket.result(timeout=SECONDS_MAX) == 1
    assert type(inturn.Executor()) is inturn.Executor


async def test_jobs_of_one_key_run_in_order(shop: Shop) -> None:
    shop.fails = {7: 2, 20: 1}
    jobs = [(f"k{n % 5}", n) for n in range(100)]
    keys = [f"k{n}" for n in range(5)]
    async with running(shop, slots=3) as executor:
        for key, n in jobs[:50]:
            await executor.submit(key, shop.write.call(key, n))
        await executor.submit_many([(key, shop.write.call(key, n)) for key, n in jobs[50:]])
        for key in keys:
            await executor.barrier(key)
    for key in keys:
        wanted = [n for k, n in jobs if k == key for _ in range({7: 3, 20: 2}.get(n, 1))]
        assert shop.ran[key] == wanted


async def test_what_was_left_runs_after_a_restart_in_order(shop: Shop) -> None:
    """(004-22)"""
    async with inturn.Executor(app=shop.app, slots=2) as executor:
        await executor.submit("a", shop.wait.call())
        for n in range(5):
            await executor.submit("a", shop.write.call("a", n))
        await until(lambda: shop.waiting)
        await executor.stop(timeout=0.05)
    assert shop.ran["a"] == []
    async with running(shop) as again:
        shop.gate.set()
        await again.submit("a", shop.write.call("a", 5))
        await again.barrier("a")
        assert shop.ran["a"] == [0, 1, 2, 3, 4, 5]


async def test_a_barrier_waits_for_what_stands_in_line_and_for_nothing_else(
    shop: Shop,
) -> None:
    """(004-16)"""
    async with running(shop) as executor:
        await executor.barrier("nobody")
        await executor.submit("b", shop.wait.call())
        waiting = asyncio.create_task(executor.barrier("b"))
        await executor.submit("c", shop.write_slowly.call("c", 1))  # in another queue
        await executor.barrier("c")
        assert shop.ran["c"] == [1]
        assert not waiting.done()
        shop.gate.set()
        await waiting


async def test_a_barrier_tells_once_what_failed_before_it(shop: Shop) -> None:
    """(004-15)"""
    shop.fails = {1: 3, 2: 3}
    async with running(shop) as executor:
        await executor.submit_many([("a", shop.write.call("a", n)) for n in range(4)])
        with pytest.raises(EarlierFailure, match="1 failed") as raised:
            await executor.barrier("a")
        assert (raised.value.failures, shop.ran["a"]) == (2, [0, 1, 1, 1, 2, 2, 2, 3])
        await executor.barrier("a")
        shop.fails = {4: 3}
        with pytest.raises(JobFailed, match="4 failed"):
            await executor.run("a", shop.write.call("a", 4))
        with pytest.raises(EarlierFailure, match="4 failed"):
            await executor.barrier("a")
        await executor.barrier("a")


async def test_a_failure_of_what_came_later_is_left_to_the_next_barrier(
    shop: Shop,
) -> None:
    """(004-15)"""

    @shop.app.job(attempts=1, queue="threads")
    async def never() -> None:
        raise ConnectionError("no line")

    seen = Seen()
    async with running(shop, error_handler=seen.handle) as executor:
        await executor.submit("a", shop.wait.call())
        barrier = asyncio.create_task(executor.barrier("a"))
        await asyncio.sleep(0.1)
        await executor.submit("a", never.call())  # in a line of its own, past what waits
        await until(lambda: len(seen.failures) == 1)
        shop.gate.set()
        await barrier
        with pytest.raises(EarlierFailure, match="no line"):
            await executor.barrier("a")


async def test_a_key_that_is_halted_fails_its_barrier_and_holds_up_no_stop(
    shop: Shop,
) -> None:
    """(004-15)"""
    shop.fails = {0: 3}
    halting = QueueSettings(on_dead=OnDead.HALT)
    await shop.app.run(lambda store: store.configure("default", halting))
    async with running(shop) as executor:
        tickets = await executor.submit_many([("a", shop.write.call("a", n)) for n in range(2)])
        for _ in range(2):
            with pytest.raises(EarlierFailure, match="0 failed"):
                await executor.barrier("a")
    assert (await tickets[1].status()).state is JobState.WAITING


async def test_what_waits_for_a_time_or_a_person_does_not_hold_up_a_stop(shop: Shop) -> None:
    await shop.app.run(lambda store: store.pause("threads", by="ann"))
    async with running(shop) as executor:
        late = await executor.submit("a", shop.write.using(delay=3600).call("a", 1))
        held = await executor.submit("a", shop.write_slowly.call("a", 1))
        await executor.submit("a", shop.write.call("a", 2))
    assert (await late.status()).state is JobState.SCHEDULED
    assert (await held.status()).state is JobState.WAITING
    assert shop.ran["a"] == [2]


async def test_a_full_queue_is_tried_again_until_the_timeout(shop: Shop) -> None:
    await shop.app.run(lambda store: store.configure("default", QueueSettings(depth_max=1)))
    seen = Seen()
    async with running(shop, slots=1, enqueue_timeout=0, listeners=[seen.listen]) as executor:
        await executor.submit("a", shop.wait.call())
        await until(lambda: shop.waiting)
        await executor.submit("a", shop.write.call("a", 1), timeout=SECONDS_MAX)
        for timeout in (None, "50ms"):
            with pytest.raises(QueueFull):
                await executor.submit("a", shop.write.call("a", 2), timeout=timeout)
        jobs = [("b", shop.write.call("b", n)) for n in range(3)]
        with pytest.raises(QueueFull, match="never fit"):
            await executor.submit_many(jobs, timeout="1h")
        shop.gate.set()
        await executor.submit("a", shop.write.call("a", 3), timeout=SECONDS_MAX)
    assert shop.ran["a"] == [1, 3]
    assert (len(seen.of(events.Refused)), len(seen.of(events.Accepted))) == (5, 3)


async def test_run_returns_what_the_handler_returned_or_raises(shop: Shop) -> None:
    shop.fails = {2: 3}
    async with running(shop, slots=1) as executor:
        assert assert_type(await executor.run("a", shop.write.call("a", 1)), int) == 1
        with pytest.raises(JobFailed, match="2 failed"):
            await executor.run("a", shop.write.call("a", 2))
        waits = asyncio.create_task(executor.run("a", shop.wait.call()))
        await until(lambda: shop.waiting)
        later = asyncio.create_task(executor.run("a", shop.write.call("a", 3)))
        await until(lambda: depth_of(shop, 1))
        later.cancel()  # its job is in the store, and stays there
        shop.gate.set()
        assert await waits == "waited"
    assert shop.ran["a"] == [1, 2, 2, 2, 3]


async def test_failures_are_reported_once_and_events_told(shop: Shop) -> None:
    shop.fails = {1: 1, 2: 3}
    seen = Seen()

    def broken(_: object) -> None:
        raise ZeroDivisionError

    @shop.app.job(timeout=0.01, attempts=1)
    async def late() -> None:
        await asyncio.sleep(60)

    executor = inturn.Executor(
        app=shop.app, listeners=[broken, seen.listen], error_handler=seen.handle
    )
    async with executor:
        await executor.submit_many([("a", shop.write.call("a", n)) for n in range(3)])
        with pytest.raises(EarlierFailure):
            await executor.barrier("a")
    [failure] = seen.failures
    assert (failure.key, failure.attempts) == ("a", 3)
    assert isinstance(failure.error, ConnectionError)
    kinds = (events.Opened, events.Accepted, events.Retried, events.Failed, events.Stopped)
    assert [len(seen.of(kind)) for kind in kinds] == [1, 3, 3, 1, 1]
    again = inturn.Executor(app=shop.app, listeners=[seen.listen], error_handler=broken)
    async with again:
        await again.submit("b", late.call())
    assert len(seen.of(events.Failed)) == 2


async def test_threads_submit_too(shop: Shop) -> None:
    async with running(shop) as executor:

        def submit(key: str) -> None:
            for n in range(10):
                executor.submit_sync(key, shop.write_slowly.call(key, n), timeout=SECONDS_MAX)

        threads = [threading.Thread(target=submit, args=(key,)) for key in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
    assert shop.ran == {key: list(range(10)) for key in "abc"}


async def test_what_a_store_cannot_keep_is_refused_with_the_way_out(shop: Shop) -> None:
    other = inturn.App("sqlite:///:memory:")
    stranger = other.job(kind="stranger")(lambda: None)

    async def plain() -> None: ...

    async with running(shop) as started:
        executor: Any = started

        @shop.app.job
        async def declared_late() -> None: ...

        for job, said in (
            (plain, r"@app\.job"),
            (lambda: None, r"@app\.job"),
            (shop.write, r"write\.call"),
            (stranger.call(), "nobody here would run job .stranger."),
            (shop.write.using(key="b").call("b", 1), "has the key 'b' already"),
            (shop.write.using(queue="elsewhere").call("a", 1), "in queue 'elsewhere'"),
            (declared_late.call(), "before the executor is made"),
        ):
            with pytest.raises(BadInput, match=said):
                await executor.submit("a", job)
        with pytest.raises(InvalidName):
            await executor.submit("", shop.wait.call())
        assert await executor.submit_many([]) == []
        await executor.submit("a", shop.write.using(key="a").call("a", 1))


async def test_stop_is_idempotent_and_concurrent_and_what_comes_then_is_refused(
    shop: Shop,
) -> None:
    executor = inturn.Executor(app=shop.app)
    with pytest.raises(ExecutorClosed, match="not started"):
        await executor.submit("a", shop.write.call("a", 1))
    await executor.start()
    await executor.submit("a", shop.write.call("a", 1))
    await asyncio.gather(*(executor.stop() for _ in range(5)), executor.close())
    await asyncio.to_thread(asyncio.run, executor.stop())
    assert shop.ran["a"] == [1]
    for verb in (executor.submit("a", shop.write.call("a", 1)), executor.barrier("a")):
        with pytest.raises(ExecutorClosed):
            await verb


async def test_an_executor_whose_worker_could_not_begin_says_why(shop: Shop) -> None:
    @shop.app.on_start
    async def connect() -> None:
        raise OSError("no route to host")

    executor = inturn.Executor(app=shop.app)
    await executor.start()
    await until(lambda: executor._running is not None and executor._running.done())
    with pytest.raises(ExecutorClosed, match=r"no route to host.* What was accepted is in the"):
        await executor.submit("a", shop.write.call("a", 1))
    with pytest.raises(HookFailed):
        await executor.stop()


def test_settings_of_jobs_and_queues_are_refused() -> None:
    app = inturn.App("sqlite:///:memory:")
    for name in ("shards", "queue_size", "max_attempts", "on_dead", "random"):
        with pytest.raises(InvalidSetting, match=f"{name} means nothing to an executor with a st"):
            inturn.Executor(app=app, **{name: 1})  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="sharps"):
        inturn.Executor(app=app, sharps=1)  # type: ignore[call-overload]
    with pytest.raises(BadInput, match=r"is no app\. Give the inturn\.App"):
        inturn.Executor(app="sqlite:///:memory:")  # type: ignore[call-overload]
    with pytest.raises(BadInput, match="error_handler"):
        inturn.Executor(app=app, error_handler=7)  # type: ignore[call-overload]


def test_settings_come_from_the_environment() -> None:
    app = inturn.App("sqlite:///:memory:")
    environment = {"SQ_SHARDS": "8", "SQ_MAX_ATTEMPTS": "many", "SQ_ENQUEUE_TIMEOUT": "2s"}
    executor = inturn.Executor.from_environment(environment, app=app)
    assert executor.enqueue_timeout == 2.0

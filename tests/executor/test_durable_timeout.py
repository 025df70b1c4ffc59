"""A durable executor's stop is over soon after its timeout, whatever runs, and loses nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any, cast

import pytest

import inturn
from inturn.model import events
from inturn.model.errors import StoreUnavailable
from inturn.model.job import JobState
from inturn.worker import stopping
from inturn.worker.durable import DurableExecutor
from inturn.worker.worker import Worker
from tests.executor.durable_shop import Shop, until
from tests.executor.support import SECONDS_MAX, Seen

STOP_SECONDS_MAX = 10.0  # for a stop with a timeout of next to nothing, on a busy machine


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait long for a store, or for handlers, that will not answer in these tests."""
    monkeypatch.setattr(stopping, "PART_SECONDS_MAX", 0.2)


class Handlers:
    """Handlers that do not end by themselves, and what became of them."""

    def __init__(self, shop: Shop) -> None:
        self.began: list[str] = []
        self.cancelled: list[str] = []
        self.open_on_loop, self.open_on_threads = asyncio.Event(), threading.Event()

        @shop.app.job(queue="loop")
        async def on_loop(name: str) -> str:
            self.began.append(name)
            try:
                await self.open_on_loop.wait()
            except asyncio.CancelledError:
                self.cancelled.append(name)
                raise
            return name

        @shop.app.job(queue="stubborn")
        async def stubborn(name: str) -> str:
            self.began.append(name)
            while not self.open_on_loop.is_set():
                try:
                    await self.open_on_loop.wait()
                except asyncio.CancelledError:
                    self.cancelled.append(name)
            return name

        @shop.app.job(queue="threads")
        def on_thread(name: str) -> str:
            self.began.append(name)
            assert self.open_on_threads.wait(SECONDS_MAX)
            return name

        self.on_loop, self.stubborn, self.on_thread = on_loop, stubborn, on_thread

    def open(self) -> None:
        self.open_on_loop.set()
        self.open_on_threads.set()


async def test_what_runs_on_the_loop_at_the_timeout_is_cancelled_and_given_back(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    async with handling(shop, listeners=[seen.listen], error_handler=seen.handle) as (one, her):
        first = await one.submit("a", her.on_loop.call("first"))
        behind = await one.submit("a", her.on_loop.call("behind"))
        await until(lambda: her.began == ["first"])
        await stopped(one)
        await gone(one)
        assert her.cancelled == ["first"]
        view = await first.status()
        assert (view.state, view.attempt) == (JobState.WAITING, 0), "its attempt was not counted"
        assert (await behind.status()).state is JobState.WAITING
        assert (len(seen.of(events.Stopped)), seen.failures) == (1, [])
    assert [one for one in caplog.messages if "left in the store" in one]
    her.open()
    async with inturn.Executor(app=shop.app) as again:
        await again.barrier("a")
    assert her.began == ["first", "first", "behind"]


async def test_a_thread_that_runs_at_the_timeout_goes_on_and_nobody_else_has_its_job(
    shop: Shop,
) -> None:
    async with handling(shop) as (one, her):
        first = await one.submit("a", her.on_thread.call("first"))
        behind = await one.submit("a", her.on_thread.call("behind"))
        await until(lambda: her.began == ["first"])
        await stopped(one)
        assert (await first.status()).state is JobState.RUNNING
        async with inturn.Executor(app=shop.app) as again:
            await again.run("b", shop.write.call("b", 1))
            assert her.began == ["first"], "two of a key, or a job behind one that runs"
            her.open()
            assert await first.result(SECONDS_MAX) == "first"
            assert await behind.result(SECONDS_MAX) == "behind"
        assert her.began == ["first", "behind"]
        await gone(one)


async def test_a_handler_that_will_not_be_cancelled_is_not_waited_for(shop: Shop) -> None:
    async with handling(shop) as (one, her):
        ticket = await one.submit("a", her.stubborn.call("first"))
        await until(lambda: her.began == ["first"])
        await stopped(one)
        assert her.cancelled == ["first"]
        her.open()
        assert await ticket.result(SECONDS_MAX) == "first"
        await gone(one)
    assert her.began == ["first"]


async def test_what_others_submitted_is_not_waited_for_past_the_timeout(shop: Shop) -> None:
    async with handling(shop) as (one, her):
        await her.on_loop.using(key="theirs").submit("theirs")
        await until(lambda: her.began == ["theirs"])
        await stopped(one)
        await gone(one)


async def test_a_store_that_is_away_is_not_waited_for_past_the_timeout(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "SEE_OUT_SECONDS", 0.01)
    async with handling(shop, lease_seconds=0.5) as (one, her):
        ticket = await one.submit("a", her.on_loop.call("first"))
        await until(lambda: her.began == ["first"])
        store = await shop.app.lend()
        for verb in ("settle", "turn", "queues", "job"):
            monkeypatch.setattr(store, verb, away)
        await stopped(one)
        await gone(one)  # it gives up on a store that does not hear it
        monkeypatch.undo()
        her.open()
        async with inturn.Executor(app=shop.app, sweep_seconds=0.05):
            assert await ticket.result(SECONDS_MAX) == "first"


async def test_a_store_that_does_not_answer_is_not_waited_for_past_the_timeout(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "SAY_SECONDS_MAX", 0.1)
    async with handling(shop) as (one, her):
        await one.submit("a", her.on_loop.call("first"))
        await until(lambda: her.began == ["first"])
        store = await shop.app.lend()
        for verb in ("settle", "turn", "queues", "job"):
            monkeypatch.setattr(store, verb, silent)
        await stopped(one)
        monkeypatch.undo()
        assert one._running is not None
        one._running.cancel()
        await gone(one)


async def test_the_store_has_a_leases_time_to_be_told_however_long_a_handler_ran(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, left = 0.0, Left()
    monkeypatch.setattr(stopping, "monotonic", lambda: now)
    monkeypatch.setattr(stopping, "SEE_OUT_SECONDS", 0.001)
    running: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    seeing_out = asyncio.create_task(stopping._see_out(cast(Worker, left), running))
    await left.looked_at()
    now = 10 * left.lease_seconds
    await left.looked_at()
    left.handlers = 0  # and the store is yet to be told how it ended
    now += left.lease_seconds
    await left.looked_at()
    assert not running.done()
    now += 1
    await seeing_out
    assert running.cancelled()


class Left:
    """A worker that was left with a handler that runs."""

    lease_seconds, handlers, looks = 30.0, 1, 0

    @property
    def running(self) -> int:
        self.looks += 1
        return self.handlers

    async def looked_at(self) -> None:
        """Wait until someone has looked after this was called, and drawn a conclusion."""
        before = self.looks
        await until(lambda: self.looks >= before + 2)


async def test_stops_after_one_that_gave_up_return_at_once(shop: Shop) -> None:
    async with handling(shop) as (one, her):
        await one.submit("a", her.on_thread.call("first"))
        await until(lambda: her.began == ["first"])
        await stopped(one)
        await asyncio.wait_for(one.stop(), STOP_SECONDS_MAX)  # as leaving ``async with`` does
        her.open()
        await gone(one)


async def test_a_stop_from_another_loop_has_the_same_end(shop: Shop) -> None:
    async with handling(shop) as (one, her):
        await one.submit("a", her.on_loop.call("first"))
        await until(lambda: her.began == ["first"])
        await asyncio.to_thread(asyncio.run, stopped(one))
        await gone(one)
        assert her.cancelled == ["first"]


def test_the_end_of_the_loop_does_not_wait_for_a_thread_that_was_left(tmp_path: Path) -> None:
    """On SQLite only: PostgreSQL's connections would end with the loop that they belong to."""
    shop = Shop(f"sqlite:///{tmp_path / 'work.db'}")

    async def main() -> Handlers:
        handlers = Handlers(shop)
        async with inturn.Executor(app=shop.app, lease_seconds=0.5) as executor:
            await executor.submit("a", handlers.on_thread.call("first"))
            await until(lambda: handlers.began == ["first"])
            await stopped(executor)
        return handlers

    async def again() -> None:
        async with inturn.Executor(app=shop.app, sweep_seconds=0.05) as executor:
            await executor.barrier("a")
        await shop.app.close()

    ended: list[Handlers] = []
    thread = threading.Thread(target=lambda: ended.append(asyncio.run(main())), daemon=True)
    thread.start()
    thread.join(SECONDS_MAX / 2)
    assert ended, "asyncio.run waits for it"
    ended[0].open_on_threads.set()
    asyncio.run(again())
    assert ended[0].began == ["first", "first"]


@asynccontextmanager
async def handling(shop: Shop, **options: Any) -> AsyncIterator[tuple[DurableExecutor, Handlers]]:
    """A durable executor that runs, and handlers that do not end until they are told to."""
    handlers = Handlers(shop)
    executor = inturn.Executor(app=shop.app, **options)
    executor.start()
    try:
        yield executor, handlers
    finally:
        handlers.open()
        await executor.stop(timeout=0)


async def stopped(executor: DurableExecutor) -> None:
    """Stop with a timeout; that must not take long."""
    began = monotonic()
    await asyncio.wait_for(executor.stop(timeout=0.05), SECONDS_MAX / 2)
    assert monotonic() - began < STOP_SECONDS_MAX


async def gone(executor: DurableExecutor) -> None:
    """Wait until nothing of an executor is left."""
    await until(lambda: executor._running is not None and executor._running.done())


async def away(*_: Any, **__: Any) -> Any:
    raise StoreUnavailable("away")


async def silent(*_: Any, **__: Any) -> Any:
    await asyncio.Event().wait()

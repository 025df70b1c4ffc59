"""What is called inside a handler's own transaction, and what it has begun there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from inturn.executor import Executor
from inturn.model.errors import StoreError
from inturn.model.job import JobState, NewJob
from inturn.queue.app import App
from inturn.queue.context import Context
from tests.worker.conftest import SECONDS_MAX, until, working

Way = Callable[[Any, Executor], Awaitable[Any]]


async def in_a_group(send: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(send.submit(1))


WAYS: dict[str, Way] = {
    "submit": lambda send, executor: send.submit(1),
    "executor.submit": lambda send, executor: executor.submit("k", send.call(1)),
    "gather": lambda send, executor: asyncio.gather(send.submit(1)),
    "wait_for": lambda send, executor: asyncio.wait_for(send.submit(1), None),
    "a task group": lambda send, executor: in_a_group(send),
    "a thread": lambda send, executor: asyncio.to_thread(send.submit_sync, 1),
}


@pytest.mark.parametrize("way", WAYS)
async def test_who_would_wait_for_the_transaction_it_is_called_in_is_refused(
    app: App, way: str
) -> None:
    """On SQLite, which has one writer; PostgreSQL has another connection for it."""
    sent: list[int] = []

    @app.job
    async def send(n: int) -> None:
        sent.append(n)

    @app.job(attempts=1)
    async def order(ctx: Context) -> None:
        async with ctx.transaction() as t:
            await t.execute("select 1")
            await WAYS[way](send, executor)

    async with Executor(app=app) as executor, asyncio.timeout(SECONDS_MAX):
        ticket = await executor.submit("o", order.call())
        ended = (JobState.DONE, JobState.DEAD)
        await until(lambda: _is_in(ticket, ended))
        view = await ticket.status()
        if app.url.startswith("postgres"):
            assert view.state is JobState.DONE
            await until(lambda: sent == [1])
        else:
            assert view.state is JobState.DEAD
            [failure] = view.errors
            assert "this would wait for ever" in f"{failure.error} {failure.traceback}"
            await executor.run("k", send.call(2))  # nothing holds the writer any more
            assert sent == [2]


async def test_a_task_that_outlives_the_transaction_it_was_started_in_may_write(app: App) -> None:
    may_write = asyncio.Event()
    late: list[asyncio.Task[Any]] = []

    @app.job
    async def send(n: int) -> None: ...

    async def write() -> Any:
        await may_write.wait()
        ticket = await send.submit(1)
        async with (await app.lend()).transaction() as t:
            await t.execute("select 1")
        return ticket

    @app.job
    async def order(ctx: Context) -> None:
        async with ctx.transaction():
            late.append(asyncio.create_task(write()))
        may_write.set()
        await send.submit(2)

    async with working(app), asyncio.timeout(SECONDS_MAX):
        await (await order.submit()).result()
        await (await late[0]).result()


async def test_a_transaction_on_another_store_is_no_hindrance(app: App) -> None:
    async with App("sqlite:///:memory:") as other, (await app.lend()).transaction() as outer:
        store = await other.lend()
        async with store.transaction() as inner:
            await inner.execute("select 1")
        await store.enqueue([NewJob(kind="k")])
        await outer.execute("select 1")
        if not app.url.startswith("postgres"):
            with pytest.raises(StoreError, match="wait for ever"):
                await asyncio.gather((await app.lend()).enqueue([NewJob(kind="k")]))


async def _is_in(ticket: Any, states: tuple[JobState, ...]) -> bool:
    return (await ticket.status()).state in states

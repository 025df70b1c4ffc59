"""Hooks: once before the first claim, once after the last settle, and around each attempt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import pytest

from inturn.model.errors import BadInput, HookFailed, JobFailed
from inturn.model.job import JobState
from inturn.policy.retry import RetryPolicy
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.worker.worker import Worker
from tests.worker.conftest import working

ONCE = RetryPolicy(attempts_max=1)
session: ContextVar[str] = ContextVar("session", default="none")


async def test_start_comes_before_the_first_claim_and_stop_after_the_last_settle(app: App) -> None:
    said: list[str] = []

    @app.on_start
    async def connect() -> None:
        await asyncio.sleep(0.05)
        said.append(f"start {(await ticket.status()).state}")

    @app.on_start
    def prepare() -> None:
        said.append("prepare")

    @app.on_stop
    def forget() -> None:
        said.append("forget")

    @app.on_stop
    async def disconnect() -> None:
        said.append(f"stop {(await ticket.status()).state}")

    @app.job
    async def work() -> None:
        said.append("work")

    ticket = await work.submit()
    async with working(app):
        await ticket.result(timeout=60)
    assert said == ["start waiting", "prepare", "work", "stop done", "forget"]


async def test_a_start_that_fails_ends_the_worker_with_its_error(app: App) -> None:
    said: list[str] = []

    @app.on_start
    async def connect() -> None:
        raise OSError("no route to host")

    @app.on_stop
    async def disconnect() -> None:
        said.append("stop")

    @app.job
    async def work() -> None:
        said.append("work")

    ticket = await work.submit()
    with pytest.raises(
        HookFailed, match=r"'connect', .* failed: OSError: no route to host"
    ) as seen:
        async with Worker(app).begun():
            said.append("began")
    assert isinstance(seen.value.__cause__, OSError)
    assert said == ["stop"]
    assert (await ticket.status()).state is JobState.WAITING


async def test_every_stop_is_called_whatever_fails(app: App) -> None:
    said: list[str] = []

    @app.on_stop
    def first() -> None:
        said.append("first")

    @app.on_stop
    async def second() -> None:
        raise OSError("cannot say goodbye")

    worker = Worker(app)
    running = asyncio.create_task(worker.run())
    await asyncio.sleep(0.05)
    worker.stop()
    said_of_it = "the hook 'second', to be called when a worker stops, failed: OSError: cannot say"
    with pytest.raises(HookFailed, match=said_of_it):
        await running
    assert said == ["first"]


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
async def test_around_surrounds_each_attempt_and_sees_how_it_ends(app: App, is_async: bool) -> None:
    said: list[str] = []

    @app.around
    async def outer(ctx: Context) -> AsyncIterator[None]:
        said.append(f"outer {ctx.attempt}")
        session.set("open")
        try:
            yield
        except ValueError as error:
            said.append(f"outer saw {error}")
            raise
        said.append("outer ends")

    @app.around
    @asynccontextmanager
    async def inner(ctx: Context) -> AsyncIterator[None]:
        said.append(f"inner {ctx.job.kind}")
        yield

    if is_async:

        @app.job(retry=RetryPolicy(attempts_max=2, base_seconds=0.01))
        async def work(ctx: Context, n: int) -> str:
            await asyncio.sleep(0)
            if ctx.attempt == 1:
                raise ValueError("boom")
            return f"{session.get()} {n}"
    else:

        @app.job(retry=RetryPolicy(attempts_max=2, base_seconds=0.01))
        def work(ctx: Context, n: int) -> str:
            if ctx.attempt == 1:
                raise ValueError("boom")
            return f"{session.get()} {n}"

    async with working(app):
        assert await (await work.submit(7)).result(timeout=60) == "open 7"
    assert said == [
        *("outer 1", "inner work", "outer saw boom"),
        *("outer 2", "inner work", "outer ends"),
    ]


async def test_what_fails_around_an_attempt_fails_the_attempt(app: App) -> None:
    @app.around
    async def around(ctx: Context) -> AsyncIterator[None]:
        raise OSError("no session")
        yield

    @app.job(retry=ONCE)
    async def work() -> None: ...

    async with working(app):
        with pytest.raises(JobFailed, match="OSError: no session"):
            await (await work.submit()).result(timeout=60)


def test_hooks_that_cannot_be_are_refused() -> None:
    app = App("sqlite:///:memory:")

    def generator(ctx: Context) -> Iterator[None]:
        yield

    async def coroutine(ctx: Context) -> None: ...

    for wrong in (generator, coroutine):
        with pytest.raises(BadInput, match="async def that yields once"):
            app.around(wrong)  # type: ignore[type-var]
    for add in (app.on_start, app.on_stop, app.around):
        with pytest.raises(BadInput, match="is for functions"):
            add(7)  # type: ignore[type-var]

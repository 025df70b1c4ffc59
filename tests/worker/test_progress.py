"""A handler says how far it is: seen while it runs, written about once a second, fenced."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from inturn.model.errors import LeaseLost
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.worker.attempt_store import PROGRESS_SECONDS, Progress
from tests.executor.support import jump
from tests.worker.conftest import take_for_good, until, working


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
async def test_what_a_handler_says_is_seen_while_it_runs(app: App, is_async: bool) -> None:
    may_end = asyncio.Event()

    if is_async:

        @app.job
        async def copies(ctx: Context) -> None:
            await ctx.progress(0.1)
            await ctx.progress(0.4, "copying")  # within the same second: written a little later
            await may_end.wait()
    else:

        @app.job
        def copies(ctx: Context) -> None:
            app.sync(ctx.progress(0.1))
            app.sync(ctx.progress(0.4, "copying"))
            app.sync(may_end.wait())

    async with working(app):
        ticket = await copies.submit()

        async def shown() -> tuple[float, str] | None:
            said = (await ticket.status()).progress
            return None if said is None else (said.fraction, said.note)

        async def copying() -> bool:
            return await shown() == (0.4, "copying")

        await until(copying)
        may_end.set()
        await ticket.result(timeout=60)
        assert await shown() is None


@pytest.mark.parametrize("beats", [False, True], ids=["progress", "heartbeat"])
async def test_a_lost_lease_is_heard_of_by_a_handler_that_says_how_far_it_is(
    app: App, beats: bool
) -> None:
    begun = asyncio.Event()
    lost: list[bool] = []

    @app.job
    async def copies(ctx: Context) -> None:
        try:
            while True:
                await (ctx.heartbeat() if beats else ctx.progress(0.5))
                begun.set()
                await asyncio.sleep(0.02)
        except LeaseLost:
            lost.append(True)
            raise

    async with working(app, lease_seconds=60, sweep_seconds=60):
        ticket = await copies.submit()
        await begun.wait()
        await take_for_good(app, ticket)
        await until(lambda: bool(lost))


def test_however_often_it_is_said_little_is_written() -> None:
    async def says_much() -> None:
        written: list[float] = []

        class Noted:
            async def progress(self, lease: Any, job: Any, *, fraction: float, note: str) -> None:
                written.append(fraction)

        store: Any = Noted()
        run: Any = SimpleNamespace(lease=None)
        job: Any = SimpleNamespace(id=None)
        says = Progress(store, run, job)
        for n in range(1_000):
            await says.say(n / 1_000, "")
        assert written == [0.0]
        await asyncio.sleep(PROGRESS_SECONDS * 1.5)
        assert written == [0.0, 0.999]
        await says.say(0.9995, "")
        says.end()
        await asyncio.sleep(PROGRESS_SECONDS * 2)
        assert written == [0.0, 0.999], "after the end nothing is written"

    jump(says_much)

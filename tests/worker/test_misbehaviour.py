"""Handlers that block the loop, or raise what ends programs: named, counted, survived."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from inturn.model.errors import JobFailed
from inturn.policy.retry import RetryLater, RetryPolicy
from inturn.queue.app import App
from tests.worker.conftest import SECONDS_MAX, until, working

ONCE = RetryPolicy(attempts_max=1)


async def test_the_line_where_a_handler_blocks_the_loop_is_named_once(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    def named() -> list[str]:
        said = (one.message for one in caplog.records)
        return [one for one in said if one.startswith("the event loop has not turned")]

    def hog() -> None:
        give_up_at = time.monotonic() + SECONDS_MAX
        while not named() and time.monotonic() < give_up_at:
            time.sleep(0.01)
        time.sleep(0.5)

    @app.job
    async def hogs() -> None:
        hog()

    @app.job
    async def waits() -> None:
        await asyncio.sleep(0.6)

    async with working(app, loop_seconds_max=0.2):
        for job in (waits, hogs, hogs):
            await (await job.submit()).result(timeout=60)
    [said] = named()
    assert re.search(r" for \d+\.\d s now; it is at ", said)
    assert f"{__file__}:{hogs.function.__code__.co_firstlineno + 2}, in hogs" in said


def _exit() -> None:
    sys.exit(3)


def _cancel() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
@pytest.mark.parametrize(
    ("misbehave", "said"),
    [
        (_exit, r"SystemExit: it called sys\.exit\(3\)"),
        (_cancel, "CancelledError: the handler raised it by itself"),
    ],
)
async def test_what_ends_programs_is_a_failed_attempt_and_no_more(
    tmp_path: Path, misbehave: Callable[[], None], said: str, is_async: bool
) -> None:
    app = App(f"sqlite:///{tmp_path / 'work.db'}")

    @app.around
    async def around(ctx):  # type: ignore[no-untyped-def]
        yield

    if is_async:

        @app.job(retry=ONCE)
        async def work(n: int) -> None:
            await asyncio.sleep(0)
            if n:
                misbehave()
    else:

        @app.job(retry=ONCE)
        def work(n: int) -> None:
            if n:
                misbehave()

    async with working(app, concurrency=1):
        with pytest.raises(JobFailed, match=said):
            await (await work.submit(1)).result(timeout=60)
        await (await work.submit(0)).result(timeout=60)
    await app.close()


@pytest.mark.parametrize("after", [-5.0, float("nan")])
async def test_a_time_to_come_back_that_cannot_be_does_not_end_the_worker(
    app: App, after: float
) -> None:
    @app.job(retry=RetryPolicy(attempts_max=2))
    async def work(n: int) -> None:
        if n:
            raise RetryLater(after=after)

    async with working(app):
        ticket = await work.submit(1)

        async def has_failed() -> bool:
            return bool((await ticket.status()).errors)

        await until(has_failed)
        await (await work.submit(0)).result(timeout=60)


async def test_a_coroutine_that_nobody_awaits_is_no_success(app: App) -> None:
    ran = []

    def plainly(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    async def charge() -> str:
        ran.append("charged")
        return "charged"

    async def forgets() -> Any:
        return charge()

    jobs = [
        app.job(kind="kept")(plainly(charge)),
        app.job(kind="not kept", keep_result=None)(plainly(charge)),
        app.job(kind="async", keep_result=None)(forgets),
    ]
    tickets = [await job.submit() for job in jobs]
    async with working(app):
        for ticket in tickets:
            with pytest.raises(JobFailed, match=r"charge\(\) is an `async def`.* not awaited"):
                await ticket.result(timeout=SECONDS_MAX)
    assert ran == []

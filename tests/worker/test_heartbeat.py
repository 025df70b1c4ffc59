"""The heartbeat: a lease is prolonged for as long as its job runs, beat by beat."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from inturn.queue.app import App
from inturn.queue.context import Context
from tests.worker.conftest import SECONDS_MAX, prolonged, until, working

BEATS = 30
LEASE_SECONDS = 2.0  # a beat may be late by more than a second, on a machine that is busy
LIVES = 3


async def test_a_lease_is_prolonged_by_every_beat_for_as_long_as_its_job_runs(
    app: App,
) -> None:
    """(001-04)"""
    may_end = asyncio.Event()
    tokens: list[int] = []

    @app.job
    async def work(ctx: Context) -> None:
        tokens.append(ctx.token)
        await may_end.wait()

    async with working(app, lease_seconds=600, sweep_seconds=0.01) as worker:
        ticket = await work.submit()
        try:
            await until(lambda: tokens)
            for _ in range(BEATS):
                await prolonged(app, tokens[0])
        finally:
            may_end.set()
        await ticket.result(timeout=60)
    assert (len(tokens), worker.record.counts.lost) == (1, 0)


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
async def test_a_job_that_outlives_its_lease_several_times_stays_with_its_worker(
    app: App, is_async: bool
) -> None:
    """Another worker wants it all the while: it is idle, and sweeps. (001-04)"""
    may_end, began = threading.Event(), list[int]()

    def begin(ctx: Context) -> None:
        began.append(ctx.token)

    if is_async:

        @app.job
        async def lasts(ctx: Context) -> None:
            begin(ctx)
            while not may_end.is_set():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    else:

        @app.job
        def lasts(ctx: Context) -> None:
            begin(ctx)
            may_end.wait(SECONDS_MAX)

    options = {"lease_seconds": LEASE_SECONDS, "sweep_seconds": 0.2}
    async with working(app, **options) as first:
        ticket = await lasts.submit()
        await until(lambda: began)
        status = await ticket.status()
        assert status.leased_until is not None
        lived_until = status.leased_until + timedelta(seconds=LIVES * LEASE_SECONDS)
        async with working(app, **options) as second:

            async def has_outlived() -> bool:
                """By the store's own clock, whoever has the job by now."""
                leased_until = (await ticket.status()).leased_until
                return len(began) > 1 or bool(leased_until and leased_until > lived_until)

            try:
                await until(has_outlived)
            finally:
                may_end.set()
            await ticket.result(timeout=SECONDS_MAX)
    assert len(began) == 1
    assert (first.record.counts.done, first.record.counts.lost) == (1, 0)
    assert second.record.counts.done == 0

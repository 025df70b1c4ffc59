"""The heartbeat: a lease is prolonged for as long as its job runs, beat by beat."""

from __future__ import annotations

import asyncio

from inturn.queue.app import App
from inturn.queue.context import Context
from tests.worker.conftest import prolonged, until, working

BEATS = 30


async def test_a_lease_is_prolonged_by_every_beat_for_as_long_as_its_job_runs(app: App) -> None:
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

"""A worker that is to stop when nothing is left to run now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from inturn.model.job import JobState, NewJob
from inturn.queue.app import App
from inturn.worker.worker import Worker
from tests.worker.conftest import run_out


async def test_a_worker_stops_when_nothing_may_be_run_now(app: App) -> None:
    ran: list[int] = []

    @app.job(queue="a")
    async def first(n: int) -> None:
        ran.append(n)
        if n < 5:
            await second.submit(n + 1)

    @app.job(queue="b")
    async def second(n: int) -> None:
        await first.submit(n + 1)

    await first.submit(1)
    later = await first.using(delay=3_600).submit(100)
    async with asyncio.timeout(60):
        await Worker(app).run(until_empty=True)
    assert ran == [1, 3, 5]
    assert (await later.status()).state is JobState.SCHEDULED


async def test_what_came_while_it_looked_is_run_before_it_stops(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody tells it, and it does not wait to find out: only the second look can see it."""
    store = await app.lend()
    claim, claims = store.claim, 0

    async def claim_and_submit(queue: str, **options: Any) -> Any:
        nonlocal claims
        found = await claim(queue, **options)
        claims += 1
        if claims == 1:
            await store.enqueue([NewJob(kind="work", payload="{}")])
        return found

    async def hear_nothing(queues: Sequence[str], *, timeout_seconds: float) -> bool:
        await asyncio.sleep(timeout_seconds)
        return False

    monkeypatch.setattr(store, "claim", claim_and_submit)
    monkeypatch.setattr(store, "wait", hear_nothing)
    ran: list[str] = []

    @app.job
    async def work() -> None:
        ran.append("work")

    async with asyncio.timeout(60):
        await Worker(app).run(until_empty=True)
    assert ran == ["work"]


async def test_what_leases_held_that_run_out_meanwhile_is_run_before_it_stops(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first sweep is over by then, and the next comes too late."""
    store = await app.lend()
    claim, claims = store.claim, 0

    async def claim_and_run_out(queue: str, **options: Any) -> Any:
        nonlocal claims
        found = await claim(queue, **options)
        claims += 1
        if claims == 1:
            assert await run_out(app, worker="another") == 1
        return found

    ran: list[str] = []

    @app.job
    async def work() -> None:
        ran.append("work")

    await store.enqueue([NewJob(kind="work", payload="{}")])
    assert await claim("default", jobs_max=1, worker="another")
    monkeypatch.setattr(store, "claim", claim_and_run_out)
    async with asyncio.timeout(60):
        await Worker(app, sweep_seconds=600).run(until_empty=True)
    assert ran == ["work"]

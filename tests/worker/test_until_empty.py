"""A worker that is to stop when nothing is left looks twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from inturn.model.job import NewJob
from inturn.queue.app import App
from inturn.worker.worker import Worker


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

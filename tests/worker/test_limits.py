"""Limits of a queue with real workers: never exceeded, and used as soon as a place is free."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from time import monotonic
from typing import Any

import pytest

from inturn.queue.app import App
from tests.worker.conftest import until, working

WORKERS = 10


class Seen:
    """What ran when."""

    def __init__(self) -> None:
        self.running = self.most = self.done = 0
        self.started: list[float] = []

    async def run(self, seconds: float) -> None:
        self.started.append(monotonic())
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(seconds)
        self.running -= 1
        self.done += 1


def made(url: str, seen: Seen, **limits: Any) -> App:
    app = App(url)
    app.queue("limited", **limits)

    @app.job(queue="limited")
    async def work(seconds: float) -> None:
        await seen.run(seconds)

    @app.job(queue="other")
    async def other() -> None: ...

    return app


async def run_all(app: App, seen: Seen, jobs: int, *, seconds: float, **options: Any) -> float:
    """Have several workers run jobs; return how long it took."""
    work = app.jobs["work"]
    await app.submit_many([work.using(**options).call(seconds=seconds) for _ in range(jobs)])
    began = monotonic()
    async with AsyncExitStack() as stack:
        for _ in range(WORKERS):
            await stack.enter_async_context(working(app, concurrency=10))
        await until(lambda: seen.done == jobs)
    return monotonic() - began


@pytest.mark.parametrize("key", [None, "a"])
async def test_no_more_jobs_run_at_once_than_a_queue_allows(url: str, key: str | None) -> None:
    """(B-01)"""
    seen = Seen()
    async with made(url, seen, running_max=2) as app:
        await run_all(app, seen, 30, seconds=0.01, key=key)
    assert seen.most == (2 if key is None else 1)
    assert seen.done == 30


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workers look for work when they are told of it, and not by themselves."""
    monkeypatch.setattr("inturn.worker.worker.POLL_SECONDS", 600.0)


@pytest.mark.usefixtures("no_polls")
async def test_workers_hear_that_a_place_is_free(url: str) -> None:
    """(B-01)"""
    seen = Seen()
    async with made(url, seen, running_max=2) as app:
        await app.submit_many([app.jobs["work"].call(seconds=0.2) for _ in range(4)])
        async with working(app, concurrency=10) as one, working(app, concurrency=10):
            await until(lambda: seen.running == 2)
            one.stop()  # its places are for the other
            await until(lambda: seen.done == 4)
    assert seen.most == 2


async def test_a_worker_holds_nothing_of_a_limited_queue_that_it_cannot_start(url: str) -> None:
    seen = Seen()
    async with made(url, seen, rate=(1_000, "1m")) as app:
        work = app.jobs["work"]
        await app.submit_many([work.call(seconds=0.05) for _ in range(60)])
        async with working(app, concurrency=2) as worker:
            most = 0
            while seen.done < 60:
                most = max(most, worker.runs.in_hand)
                await asyncio.sleep(0.001)
        [status] = [one for one in await app.run(lambda store: store.queues()) if one.waiting == 0]
    assert most == 2
    assert status.running == 0


@pytest.mark.usefixtures("no_polls")
async def test_workers_go_on_when_places_of_a_rate_come_back(url: str) -> None:
    """(B-01)"""
    seen = Seen()
    async with made(url, seen, rate=(10, "500ms")) as app:
        took = await run_all(app, seen, 40, seconds=0.0)
    assert seen.done == 40
    assert took >= 1.5  # three windows lie between the first ten and the last

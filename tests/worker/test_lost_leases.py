"""A job whose lease is lost: its handler ends as soon as the worker hears of it, and counts not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType

import pytest

from inturn.model.worker_events import LeasesLost, WorkerEvent
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.worker import heartbeat, prefetch, suspects
from tests.worker.conftest import take_for_good, take_leases, until, working
from tests.worker.test_processes import is_alive, jobs  # noqa: F401

LEASE = {"lease_seconds": 60.0, "sweep_seconds": 60.0}  # neither runs out nor sweeps by itself
SECONDS_MAX = 60.0


@pytest.fixture(autouse=True)
def quick_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a worker hear soon of a lease that was lost, and look soon for who runs again."""
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS_MAX", 0.1)
    monkeypatch.setattr(suspects, "ASK_SECONDS", 0.1)


def losses(told: list[WorkerEvent]) -> list[tuple[int, int, int]]:
    """Return what was told of lost leases: how many jobs, cancelled, going on."""
    lost = [one for one in told if isinstance(one, LeasesLost)]
    return [(one.jobs, one.cancelled, one.going_on) for one in lost]


async def test_an_async_def_is_cancelled_and_the_next_attempt_runs(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[WorkerEvent] = []
    tokens: list[int] = []
    cancelled: list[bool] = []

    @app.job
    async def work(ctx: Context) -> int:
        assert not ctx.is_lost
        tokens.append(ctx.token)
        if len(tokens) == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(ctx.is_lost)
                raise
        return 7

    async with working(app, concurrency=1, listeners=[told.append], **LEASE) as worker:
        ticket = await work.submit()
        await until(lambda: tokens, SECONDS_MAX)
        await take_leases(app)
        assert await ticket.result(timeout=SECONDS_MAX) == 7
    assert cancelled == [True]
    assert tokens[0] < tokens[1]
    assert losses(told) == [(1, 1, 0)]
    counts = worker.record.counts
    assert (counts.done, counts.lost, counts.failed, counts.released) == (1, 1, 0, 0)
    assert "the lease of 1 job ran out, so others run them (1 cancelled here)" in caplog.text
    assert (await ticket.status()).errors == ()


async def test_a_def_goes_on_and_can_see_that_it_need_not(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[WorkerEvent] = []
    saw: list[str] = []
    began: list[int] = []

    @app.around
    async def session(ctx: Context) -> AsyncIterator[None]:
        try:
            yield
        finally:
            saw.append("closed")

    @app.job
    def work(ctx: Context) -> int:
        began.append(ctx.token)
        give_up_at = time.monotonic() + SECONDS_MAX
        while len(began) == 1 and not ctx.is_lost and time.monotonic() < give_up_at:
            time.sleep(0.01)
        saw.append("lost" if ctx.is_lost else "kept")
        return len(began)

    async with working(app, concurrency=1, listeners=[told.append], **LEASE) as worker:
        ticket = await work.submit()
        await until(lambda: began, SECONDS_MAX)
        await take_leases(app)
        assert await ticket.result(timeout=SECONDS_MAX) == 2, "what the first one says counts not"
    assert saw == ["lost", "closed", "kept", "closed"], "what surrounds a thread outlives it"
    assert losses(told) == [(1, 0, 1)]
    assert "(1 going on here, for a def on a thread cannot be cancelled)" in caplog.text
    assert (worker.record.counts.done, worker.record.counts.lost) == (1, 1)


async def test_what_waits_behind_it_does_not_start(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "ASK_SECONDS", 3_600.0)
    monkeypatch.setattr(prefetch, "TURN_SECONDS_MAX", SECONDS_MAX)  # no pause makes it claim less
    told: list[WorkerEvent] = []
    ran: list[int] = []

    @app.job
    async def work(n: int) -> None:
        ran.append(n)
        if n >= 0:
            await asyncio.Event().wait()

    async with working(app, listeners=[told.append], **LEASE) as worker:
        worker.steps.prefetch.window = 100  # it takes the lane's three jobs at once
        await (await work.submit(-1)).result(
            timeout=SECONDS_MAX
        )  # so that it has asked for suspects, one by one
        tickets = await app.submit_many([work.using(key="a").call(n) for n in range(3)])
        await until(lambda: ran == [-1, 0] and worker.runs.in_hand == 3, SECONDS_MAX)
        store = await app.lend()
        await store.pause("default", by="ann")  # so that nobody begins anew
        await take_leases(app)
        await until(lambda: losses(told), SECONDS_MAX)
        await until(lambda: worker.running == 0, SECONDS_MAX)
    assert ran == [-1, 0]
    assert losses(told) == [(3, 1, 0)]
    assert [(await one.status()).suspect for one in tickets] == [True] * 3


async def test_who_has_settled_in_its_own_transaction_may_go_on(app: App) -> None:
    told: list[WorkerEvent] = []
    committed, may_end = asyncio.Event(), asyncio.Event()
    saw: list[bool] = []

    @app.job
    async def work(ctx: Context) -> None:
        async with ctx.transaction():
            pass
        committed.set()
        await may_end.wait()
        saw.append(ctx.is_lost)

    async with working(app, listeners=[told.append], **LEASE) as worker:
        await work.submit()
        await asyncio.wait_for(committed.wait(), SECONDS_MAX)
        await beaten(app, times=3)  # heartbeats, which find the lease gone
        may_end.set()
        await until(lambda: saw, SECONDS_MAX)
    assert saw == [False]
    assert losses(told) == []
    assert (worker.record.counts.done, worker.record.counts.lost) == (1, 0)


async def beaten(app: App, *, times: int) -> None:
    """Wait until the one worker there is was heard of so many times more."""
    store = await app.lend()
    for _ in range(times):
        before = await store.workers()

        async def is_heard() -> bool:
            return await store.workers() != before  # noqa: B023

        await until(is_heard, SECONDS_MAX)


async def test_a_child_process_is_killed(jobs: ModuleType, tmp_path: Path) -> None:  # noqa: F811
    told: list[WorkerEvent] = []
    path = tmp_path / "pid"
    async with working(jobs.app, listeners=[told.append], **LEASE):
        ticket = await jobs.stays.submit(str(path))
        await until(lambda: path.exists() and path.read_text(), SECONDS_MAX)
        pid = int(path.read_text())
        await take_for_good(jobs.app, ticket)
        await until(lambda: not is_alive(pid), SECONDS_MAX)
        await until(lambda: losses(told), SECONDS_MAX)
    assert losses(told) == [(1, 1, 0)]

"""An app on each sort of store, and a worker of it in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import copy_context
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from inturn.executor.slots import Slots
from inturn.queue.app import App
from inturn.queue.ticket import Ticket
from inturn.worker.attempt import Attempts
from inturn.worker.queues import QueuesReady
from inturn.worker.runs import Runs
from inturn.worker.worker import Worker

SECONDS_MAX = 60.0  # for anything in these tests that could hang, on a machine that is busy


@pytest_asyncio.fixture(params=["sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[App]:
    """An app with nothing declared on it; afterwards its store must hold together."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'work.db'}"
    else:
        url = request.getfixturevalue("migrated_url")
    app = App(url)
    yield app
    assert await app.run(lambda store: store.check()) == []
    await app.close()


async def runs_of(app: App, *, slots: int = 8) -> Runs:
    """Return the leases of a worker named w1 that takes no steps: those are the test's."""
    attempts = {kind: Attempts(job, Random(1), watchdog=None) for kind, job in app.jobs.items()}
    runs = Runs("w1", attempts, QueuesReady(["default"]), lease_seconds=60.0)
    runs.store, runs.slots = await app.lend(), Slots(slots)
    runs.context = copy_context()
    runs.queues.begin()
    return runs


@asynccontextmanager
async def working(app: App, **options: Any) -> AsyncIterator[Worker]:
    """Let a worker work, and stop it as SIGTERM would."""
    worker = Worker(app, **options)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        async with asyncio.timeout(SECONDS_MAX):
            await running


async def until(condition: Callable[[], Any], seconds: float = SECONDS_MAX) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if isinstance(found, Awaitable):
                found = await found
            if found:
                return
            await asyncio.sleep(0.005)


async def run_out(app: App, *, worker: str | None = None) -> int:
    """Let leases, all or a worker's, run out at once, even if prolonged; return how many."""
    is_postgres = app.url.startswith("postgres")
    early = "until - interval '1 hour'" if is_postgres else "until - 3600000000"
    lease = f"{'inturn.' * is_postgres}lease"
    whose = "" if worker is None else f"where worker = '{worker}'"
    async with (await app.lend()).transaction() as t:
        [[count]] = await t.execute(f"select count(*) from {lease} {whose}")
        await t.execute(f"update {lease} set until = {early} {whose}")
    return int(count)


async def prolonged(app: App, token: int) -> None:
    """Wait until a lease has been prolonged."""
    before = await lease_ends(app, token)

    async def is_later() -> bool:
        return bool(await lease_ends(app, token) > before)

    await until(is_later)


async def lease_ends(app: App, token: int) -> Any:
    """Return when a lease runs out, as its store keeps it."""
    lease = "inturn.lease" if app.url.startswith("postgres") else "lease"
    async with (await app.lend()).transaction() as t:
        [[at]] = await t.execute(f"select until from {lease} where token = {token}")
    return at


async def take_for_good(app: App, ticket: Ticket[Any]) -> None:
    """Let the lease of the one job that runs be lost, and let nobody begin it anew."""
    store = await app.lend()
    await store.pause("default", by="ann")
    await take_leases(app)
    await store.cancel(ticket.id, by="ann")
    await store.resume("default")


async def take_leases(app: App, *, worker: str | None = None) -> None:
    """Let leases run out, and take them back; unless the worker's own sweep was quicker."""
    store = await app.lend()
    if worker is None:
        await until(store.workers)  # it beats after its first sweep, and the next is far

    async def taken() -> bool:
        left = await run_out(app, worker=worker)
        return (await store.reclaim()).leases > 0 or (worker is not None and not left)

    await until(taken)

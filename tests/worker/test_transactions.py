"""What is called inside a handler's own transaction, and what it has begun there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from inturn.executor import Executor
from inturn.model.job import JobState, NewJob
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.worker.worker import Worker
from tests.worker.conftest import SECONDS_MAX, until, working

Door = Callable[[Any, Any], Awaitable[Any]]


DOORS: dict[str, Door] = {
    "submit": lambda send, executor: send.submit(1),
    "gather": lambda send, executor: asyncio.gather(send.submit(1)),
    "a thread": lambda send, executor: asyncio.to_thread(send.submit_sync, 1),
}


@pytest.mark.parametrize("door", DOORS)
async def test_who_would_wait_for_the_transaction_it_is_called_in_is_refused(
    app: App, door: str
) -> None:
    """On SQLite, which has one writer; PostgreSQL has another connection for it."""
    sent: list[int] = []

    @app.job
    async def send(n: int) -> None:
        sent.append(n)

    @app.job(attempts=1)
    async def order(ctx: Context) -> None:
        async with ctx.transaction() as t:
            await t.execute("select 1")
            await DOORS[door](send, executor)

    async with Executor(app=app) as executor, asyncio.timeout(SECONDS_MAX):
        ticket = await executor.submit("o", order.call())
        ended = (JobState.DONE, JobState.DEAD)
        await until(lambda: _is_in(ticket, ended))
        view = await ticket.status()
        if app.url.startswith("postgres"):
            assert view.state is JobState.DONE
            await until(lambda: sent == [1])
        else:
            assert view.state is JobState.DEAD
            [failure] = view.errors
            assert "this would wait for ever" in f"{failure.error} {failure.traceback}"
            await executor.run("k", send.call(2))  # nothing holds the writer any more
            assert sent == [2]


async def test_those_behind_a_job_that_fails_after_its_transaction_have_their_turn(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []

    @app.job
    async def work(ctx: Context, n: int) -> None:
        ran.append(n)
        async with ctx.transaction():
            pass
        raise ValueError("too late to count")

    async with lane_of_three(app, work) as (worker, tickets):
        await until(lambda: _all_in(tickets, JobState.DONE))
    assert ran == [0, 1, 2]
    assert (worker.record.counts.done, worker.record.counts.lost) == (3, 0)
    assert caplog.text.count("failed after its transaction had committed: ValueError") == 3


@asynccontextmanager
async def lane_of_three(app: App, work: Any) -> AsyncIterator[tuple[Worker, list[Any]]]:
    """Let a worker have three jobs of a key under one lease, which lasts."""
    async with working(app, lease_seconds=600, sweep_seconds=3_600) as worker:
        claim_at_once(worker)
        yield worker, await app.submit_many([work.using(key="a").call(n) for n in range(3)])


def claim_at_once(worker: Worker) -> None:
    """Let a worker claim what there is of a lane with one claim, as after a thousand quick jobs."""
    worker.steps.prefetch.window, worker.steps.prefetch.ended_per_second = 20, 10_000.0
    worker.steps.suspects.asks = lambda *_, **__: False  # type: ignore[method-assign]


async def _all_in(tickets: list[Any], state: JobState) -> bool:
    return {(await ticket.status()).state for ticket in tickets} == {state}


async def _is_in(ticket: Any, states: tuple[JobState, ...]) -> bool:
    return (await ticket.status()).state in states


@pytest.mark.parametrize("together", [False, True], ids=["inside", "at the same time"])
async def test_an_attempt_has_one_transaction_and_a_second_is_refused(
    app: App, together: bool
) -> None:
    """Of two the inner would say that the job is done, and the outer lose what it wrote."""

    @app.job(attempts=1)
    async def order(ctx: Context) -> None:
        async def write() -> None:
            async with ctx.transaction() as t:
                await t.enqueue([NewJob(kind="inner")])

        async with ctx.transaction() as t:
            await t.enqueue([NewJob(kind="outer")])
            await (asyncio.gather(write()) if together else write())

    async with working(app):
        ticket = await order.submit()
        await until(lambda: _is_in(ticket, (JobState.DONE, JobState.DEAD)))
    view = await ticket.status()
    assert view.state is JobState.DEAD
    assert "the job's transaction is open, and an attempt has one" in view.errors[0].error
    assert len((await app.run(lambda store: store.jobs())).rows) == 1

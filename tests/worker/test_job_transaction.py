"""What a handler's transaction says: of its own rows, of other jobs, and of its own job.

Promise P13 of ARCHITECTURE.md.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from inturn.model.errors import BadInput, QueueFull, UnknownJob
from inturn.model.job import JobState
from inturn.model.lane import QueueSettings
from inturn.policy.retry import RetryPolicy
from inturn.policy.verdict import Bury, Retry
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.queue.ticket import Ticket
from tests.worker.conftest import until, working
from tests.worker.test_transactions import lane_of_three

NOTE = "insert into note (text) values ('{}')"


async def notes(app: App) -> list[str]:
    async with app.transaction() as t:
        return [text for (text,) in await t.execute("select text from note order by text")]


@pytest.fixture
async def app(app: App) -> App:
    async with app.transaction() as t:
        await t.execute("create table note (text text not null)")
    return app


async def is_in(ticket: Ticket[Any], state: JobState) -> bool:
    return (await ticket.status()).state is state


async def test_a_job_whose_transaction_says_retry_keeps_its_rows_and_runs_again(app: App) -> None:
    """Under a lease with two jobs behind it, which wait for it."""
    ran: list[tuple[int, int]] = []

    @app.job
    async def work(ctx: Context, n: int) -> None:
        ran.append((n, ctx.attempt))
        async with ctx.transaction() as t:
            await t.execute(NOTE.format(f"{n}, attempt {ctx.attempt}"))
            if n == 0 and ctx.attempt < 3:
                t.verdict = Retry(0.01, "not yet")

    async with lane_of_three(app, work) as (worker, tickets):
        for ticket in tickets:
            await until(partial(is_in, ticket, JobState.DONE))
    assert ran == [(0, 1), (0, 2), (0, 3), (1, 1), (2, 1)]
    assert await notes(app) == [f"{n}, attempt {attempt}" for n, attempt in ran]
    counts = worker.record.counts
    assert (counts.done, counts.failed, counts.lost) == (3, 2, 0)


async def test_a_job_whose_transaction_says_bury_is_dead_and_keeps_its_rows(app: App) -> None:
    @app.job
    async def work(ctx: Context) -> None:
        async with ctx.transaction() as t:
            await t.execute(NOTE.format("unknown"))
            t.verdict = Bury("no such customer")

    async with working(app) as worker:
        ticket = await work.submit()
        await until(lambda: is_in(ticket, JobState.DEAD))
    assert (await ticket.status()).reason == "no such customer"
    assert await notes(app) == ["unknown"]
    assert (worker.record.counts.dead, worker.record.counts.lost) == (1, 0)
    assert worker.runs.volume.chars == 0, "there is nothing to settle"


async def test_an_error_in_the_block_counts_and_not_the_verdict(app: App) -> None:
    @app.job(attempts=1)
    async def work(ctx: Context) -> None:
        async with ctx.transaction() as t:
            await t.execute(NOTE.format("gone"))
            t.verdict = Retry(0.0, "not yet")
            raise ValueError("broken")

    async with working(app):
        ticket = await work.submit()
        await until(lambda: is_in(ticket, JobState.DEAD))
    assert "broken" in ((await ticket.status()).reason or "")
    assert await notes(app) == []


async def test_what_a_handler_submits_is_there_if_its_transaction_commits(app: App) -> None:
    tickets: list[Ticket[None]] = []

    @app.job(queue="later")
    async def send(n: int) -> None: ...

    @app.job(retry=RetryPolicy(base_seconds=0.01))
    async def order(ctx: Context) -> None:
        async with ctx.transaction() as t:
            call = send.call(ctx.attempt)
            ticket = await t.submit(call)
            tickets.append(ticket)
            assert (ticket.id, ticket.position) == (call.id, None)
            with pytest.raises(BadInput, match="submitted before"):
                await t.submit(call)
            if ctx.attempt == 1:
                raise ValueError("half way")

    async with working(app, queues=["default"]):
        ticket = await order.submit()
        await until(lambda: is_in(ticket, JobState.DONE))
    undone, made = tickets
    with pytest.raises(UnknownJob):
        await undone.status()
    assert await is_in(made, JobState.WAITING)
    assert made.position == 1


async def test_what_is_noted_happens_in_the_order_in_which_it_can_succeed(app: App) -> None:
    """A place is freed before it is taken, and a gate sees the job behind it."""

    @app.job(queue="one")
    async def only() -> None: ...

    await app.run(lambda store: store.configure("one", QueueSettings(depth_max=1)))
    first = await only.submit()
    async with app.transaction() as t:
        await t.advance_gate("one")
        second = await t.submit(only.using(round=1).call())
        await t.cancel(first)
    assert second.position == 1
    assert await is_in(first, JobState.CANCELLED)
    [queue] = await app.run(lambda store: store.queues())
    assert (queue.gate, queue.waiting) == (1, 1)


async def test_what_is_refused_at_the_commit_undoes_all_of_it(app: App) -> None:
    @app.job(queue="one")
    async def only() -> None: ...

    await app.run(lambda store: store.configure("one", QueueSettings(depth_max=1)))
    first, call = await only.submit(), only.call()

    async def submit() -> None:
        async with app.transaction() as t:
            await t.execute(NOTE.format("gone"))
            await t.submit(call)

    with pytest.raises(QueueFull):
        await submit()
    assert await notes(app) == []
    await first.cancel()
    await submit()  # the call was not submitted before
    assert await notes(app) == ["gone"]

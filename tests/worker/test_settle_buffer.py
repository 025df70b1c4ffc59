"""What a worker settles: together, in calls that fit, and once, whatever becomes of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from inturn.model.errors import StoreUnavailable
from inturn.model.job import JobState
from inturn.policy.retry import RetryPolicy
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.worker import queues, runs, settle_buffer, step, worker
from inturn.worker.prefetch import Prefetch
from inturn.worker.settle_buffer import chars_in
from tests.worker.conftest import prolonged, until, working

JOBS, SLOTS, SIZE, UNSETTLED_MAX, CALL_MAX = 200, 10, 1_000, 20_000, 5_000


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_a_store_that_took_it_and_did_not_say_so_is_not_told_twice(
    app: App, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What else is under the lease goes on, and is not given up for lost."""
    monkeypatch.setattr(worker, "TROUBLE_SECONDS", 0.02)
    ran: list[int] = []
    lost = 0

    @app.job
    async def work(n: int) -> None:
        ran.append(n)
        await asyncio.sleep(0.01)

    store: Any = await app.lend()

    def losing(verb: Callable[..., Any]) -> Callable[..., Any]:
        calls = 0

        async def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls, lost
            answer = await verb(*arguments, **options)
            calls += 1
            if calls % 8 == 1:
                lost += 1
                raise StoreUnavailable("it went away before it could answer.")
            return answer

        return call

    store.settle = losing(store.settle)
    async with working(app, concurrency=4, lease_seconds=600) as one:
        one.steps.prefetch.ended_per_second = 10_000.0  # long runs
        tickets = await app.submit_many([work.using(key=key).call(n) for n in range(60)])
        for ticket in tickets:
            await ticket.result(timeout=60)
    assert lost > 0
    assert (ran if key else sorted(ran)) == list(range(60))


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_a_lease_is_prolonged_until_the_store_has_taken_what_became_of_it(
    app: App, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens: list[int] = []
    listens = False
    store: Any = await app.lend()

    @app.job
    async def work(ctx: Context) -> None:
        tokens.append(ctx.token)

    def deaf(verb: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any, **options: Any) -> Any:
            if not listens:
                raise StoreUnavailable("it is away.")
            return await verb(*arguments, **options)

        return call

    monkeypatch.setattr(store, "settle", deaf(store.settle))
    monkeypatch.setattr(store, "turn", deaf(store.turn))
    async with working(app, lease_seconds=60, sweep_seconds=0.05) as worker:
        ticket = await work.using(key=key).submit()
        await until(lambda: tokens)
        await prolonged(app, tokens[0])
        listens = True
        await ticket.result(timeout=60)
    assert (len(tokens), worker.record.counts.lost) == (1, 0)
    assert worker.runs.leases() == []


async def test_what_will_not_start_soon_is_given_back(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (runs, step):
        monkeypatch.setattr(module, "SLOW_SECONDS", 0.2)
    monkeypatch.setattr(worker, "POLL_SECONDS", 0.05)  # it looks again, and again
    may_end, begun = asyncio.Event(), asyncio.Event()

    @app.job
    async def work() -> None:
        begun.set()
        await may_end.wait()

    async with working(app, concurrency=1) as one:
        one.steps.prefetch.ended_per_second = 10_000.0  # as after a thousand quick jobs
        one.steps.prefetch.window = 20
        tickets = await app.submit_many([work.call() for _ in range(20)])
        await begun.wait()
        try:
            await until(lambda: one.record.counts.released == 19)
            found = [await ticket.status() for ticket in tickets]
            assert sorted((view.state, view.attempt) for view in found) == [
                (JobState.RUNNING, 1),
                *[(JobState.WAITING, 0)] * 19,
            ]
            await asyncio.sleep(1.0)
            assert one.record.counts.released == 19  # nor were they claimed again
        finally:
            may_end.set()
        for ticket in tickets:
            await ticket.result(timeout=60)


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_what_failed_is_looked_for_when_it_is_due_and_not_only_by_the_next_poll(
    app: App, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "POLL_SECONDS", 3_600.0)
    monkeypatch.setattr(queues, "WAIT_SECONDS", 3_600.0)
    attempts: list[int] = []

    @app.job(attempts=2, retry=RetryPolicy(base_seconds=0.3, jitter=0.0))
    async def work(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            raise ValueError("not yet")

    async with working(app, lease_seconds=3_600, sweep_seconds=3_600):
        await work.using(key=key).submit()
        await until(lambda: attempts == [1, 2])


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_nothing_more_starts_while_large_results_wait_to_be_settled(
    app: App, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was claimed is given back, and runs when the store has heard of the others."""
    monkeypatch.setattr(settle_buffer, "CHARS_UNSETTLED_MAX", UNSETTLED_MAX)
    monkeypatch.setattr(settle_buffer, "CALL_CHARS_MAX", CALL_MAX)
    monkeypatch.setattr(Prefetch, "wanted", lambda _, in_hand, busy: JOBS - in_hand)
    ran: list[int] = []
    calls: list[int] = []
    listens = asyncio.Event()
    store: Any = await app.lend()

    @app.job
    async def work(n: int) -> str:
        ran.append(n)
        return "x" * SIZE

    def slow(verb: Callable[..., Any]) -> Callable[..., Any]:
        async def call(settlements: Any, *arguments: Any, **options: Any) -> Any:
            if len(ran) > 1:  # the first is claimed by itself, and then all the others
                await listens.wait()
            calls.append(sum(map(chars_in, settlements)))
            return await verb(settlements, *arguments, **options)

        return call

    monkeypatch.setattr(store, "settle", slow(store.settle))
    monkeypatch.setattr(store, "turn", slow(store.turn))
    tickets = await app.submit_many([work.using(key=key).call(n) for n in range(JOBS)])
    async with working(app, concurrency=SLOTS) as one:
        try:
            await until(lambda: len(ran) > 1 and one.running == 0)
            assert len(ran) <= 1 + UNSETTLED_MAX / SIZE + SLOTS
        finally:
            listens.set()
        for ticket in tickets:
            assert await ticket.result(timeout=60) == "x" * SIZE
        await until(lambda: one.runs.volume.chars == 0)
    assert max(calls) <= CALL_MAX
    assert (ran if key else sorted(ran)) == list(range(JOBS))
    assert one.record.counts.released > 0

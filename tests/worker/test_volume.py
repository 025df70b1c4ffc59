"""What waits to be told to the store: no more of it than the memory should hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from inturn.queue.app import App
from inturn.worker import telling, volume
from inturn.worker.prefetch import Prefetch
from inturn.worker.volume import chars_in
from tests.worker.conftest import until, working

JOBS, SLOTS, SIZE, UNTOLD_MAX, CALL_MAX = 200, 10, 1_000, 20_000, 5_000


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
async def test_nothing_more_starts_while_large_results_wait_to_be_told(
    app: App, key: str | None, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was claimed is given back, and runs when the store has heard of the others."""
    monkeypatch.setattr(volume, "CHARS_UNTOLD_MAX", UNTOLD_MAX)
    monkeypatch.setattr(telling, "CALL_CHARS_MAX", CALL_MAX)
    monkeypatch.setattr(Prefetch, "wanted", lambda _, in_hand, busy: JOBS - in_hand)
    ran: list[int] = []
    calls: list[int] = []
    listens = asyncio.Event()
    store: Any = await app.lend()

    def work(n: int) -> str:
        ran.append(n)
        return "x" * SIZE

    async def on_loop(n: int) -> str:
        return work(n)

    def slow(verb: Callable[..., Any]) -> Callable[..., Any]:
        async def call(settlements: Any, *arguments: Any, **options: Any) -> Any:
            if len(ran) > 1:  # the first is claimed by itself, and then all the others
                await listens.wait()
            calls.append(sum(map(chars_in, settlements)))
            return await verb(settlements, *arguments, **options)

        return call

    monkeypatch.setattr(store, "settle", slow(store.settle))
    monkeypatch.setattr(store, "turn", slow(store.turn))
    job: Any = app.job(on_loop) if is_async else app.job(work)
    tickets = await app.submit_many([job.using(key=key).call(n) for n in range(JOBS)])
    async with working(app, concurrency=SLOTS) as one:
        try:
            await until(lambda: len(ran) > 1 and one._hands.keys_busy == 0)
            assert len(ran) <= 1 + UNTOLD_MAX / SIZE + SLOTS
        finally:
            listens.set()
        for ticket in tickets:
            assert await ticket.result(timeout=60) == "x" * SIZE
        await until(lambda: one._hands.volume.chars == 0)
    assert max(calls) <= CALL_MAX
    assert (ran if key else sorted(ran)) == list(range(JOBS))
    assert one.record.counts.released > 0


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
async def test_nothing_is_claimed_with_the_call_that_tells_of_as_much_as_may_wait(
    app: App, key: str | None, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume, "CHARS_UNTOLD_MAX", SIZE)
    told: dict[str, list[int]] = {"settle": [], "turn": []}
    store: Any = await app.lend()

    def noted(name: str) -> Callable[..., Any]:
        verb = getattr(store, name)

        async def call(settlements: Any, *arguments: Any, **options: Any) -> Any:
            told[name].append(sum(map(chars_in, settlements)))
            return await verb(settlements, *arguments, **options)

        return call

    for name in told:
        monkeypatch.setattr(store, name, noted(name))

    def work(chars: int) -> str:
        return "x" * chars

    async def on_loop(chars: int) -> str:
        return work(chars)

    job: Any = app.job(on_loop) if is_async else app.job(work)
    sizes = [SIZE, 0] * 10
    tickets = await app.submit_many([job.using(key=key).call(size) for size in sizes])
    async with working(app, concurrency=1):
        for ticket, size in zip(tickets, sizes, strict=True):
            assert await ticket.result(timeout=60) == "x" * size
    assert [chars for chars in told["turn"] if chars >= SIZE] == []
    assert max(told["settle"]) >= SIZE

"""What a worker claims: quick jobs in batches, slow ones one by one, and never a hoard."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from inturn.model.lease import Claim
from inturn.policy.settlement import Settlement
from inturn.queue.app import App
from inturn.store.store import Store
from inturn.testing.delegate import StoreDelegate
from inturn.worker import prefetch
from inturn.worker.worker import Worker
from tests.worker.conftest import until, working


class Claims(StoreDelegate):
    """A store that writes down how many jobs each claim has brought."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.sizes: list[int] = []

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        return self._counted(await self._store.claim(queue, **options))

    async def turn(
        self, settlements: Iterable[Settlement], queue: str, **options: Any
    ) -> list[Claim]:
        return self._counted(await self._store.turn(settlements, queue, **options))

    def _counted(self, claims: list[Claim]) -> list[Claim]:
        if size := sum(len(claim.jobs) for claim in claims):
            self.sizes.append(size)
        return claims


@asynccontextmanager
async def claiming(app: App, **options: Any) -> AsyncIterator[tuple[Worker, list[int]]]:
    """Let a worker work; give it, and the sizes of its claims."""
    claims = Claims(await app.lend())

    async def lend() -> Store:
        return claims

    vars(app)["lend"] = lend
    async with working(app, **options) as worker:
        yield worker, claims.sizes


async def test_adaptive_prefetch_claims_quick_jobs_in_batches(app: App) -> None:
    ran = 0

    @app.job(keep_result=None)
    async def quick() -> None:
        nonlocal ran
        ran += 1

    await app.submit_many([quick.call() for _ in range(3_000)])
    async with claiming(app) as (_, sizes):
        await until(lambda: ran == 3_000, 60)
    assert sizes[0] == 1, "nothing is known yet"
    assert len(sizes) < 300


async def test_adaptive_prefetch_claims_jobs_that_compute_one_by_one(app: App) -> None:
    held: list[int] = []

    @app.job
    async def computes() -> None:
        held.append(worker.runs.in_hand)
        time.sleep(2 * prefetch.HORIZON_SECONDS)  # noqa: ASYNC251

    await app.submit_many([computes.call() for _ in range(8)])
    async with claiming(app, concurrency=50) as (worker, sizes):
        await until(lambda: len(held) == 8, 60)
    assert held == [1] * 8, "whoever else is idle finds the others"
    assert sizes == [1] * 8


async def test_adaptive_prefetch_claims_jobs_that_wait_for_free_slots_and_hoards_none(
    app: App,
) -> None:
    may_end = asyncio.Event()
    begun = 0

    @app.job
    async def waits() -> None:
        nonlocal begun
        begun += 1
        await may_end.wait()

    await app.submit_many([waits.call() for _ in range(60)])
    async with claiming(app, concurrency=20) as (worker, sizes):
        try:
            await until(lambda: begun == 20, 60)
            assert worker.runs.in_hand == 20
            [status] = await app.run(lambda store: store.queues())
            assert (status.running, status.waiting) == (20, 40)
            assert sizes[0] == 1
        finally:
            may_end.set()
        await until(lambda: begun == 60, 60)


async def test_what_is_in_hand_is_bounded_by_its_size_from_the_first_claim_on(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "CHARS_AHEAD_MAX", 8_000)
    monkeypatch.setattr(prefetch, "CHARS_HELD_MAX", 20_000)
    may_end = asyncio.Event()
    begun = 0

    @app.job
    async def waits(text: str) -> None:
        nonlocal begun
        begun += 1
        await may_end.wait()

    await app.submit_many([waits.call("x" * 1_000) for _ in range(60)])
    async with claiming(app, concurrency=50) as (worker, sizes):
        try:
            await until(lambda: begun >= 19, 60)  # a payload is a little larger than its text
            await asyncio.sleep(0.1)
            assert (begun, worker.runs.in_hand) == (19, 19)
            assert max(sizes) <= 7
        finally:
            may_end.set()
        await until(lambda: begun == 60, 60)

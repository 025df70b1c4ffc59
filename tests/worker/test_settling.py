"""What has ended is settled at once, and together: nothing waits for a timer, or for the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from copy import copy
from statistics import median
from time import perf_counter, sleep
from typing import Any, NamedTuple

import pytest

from inturn.model.lease import Claim
from inturn.policy.settlement import Settlement
from inturn.queue.app import App
from inturn.store.delegate import StoreDelegate
from inturn.store.store import Store
from tests.worker.conftest import SECONDS_MAX, until, working

JOBS = 8
TIMES = 50  # as long as the store takes to answer may a settlement wait before it is sent


class Call(NamedTuple):
    """One call that settled jobs: when it was made, when it was answered."""

    jobs: int
    began: float
    ended: float


class TimedStore(StoreDelegate):
    """A store that notes each call that settles something."""

    def __init__(self, store: Store, calls: list[Call]) -> None:
        super().__init__(store)
        self._calls = calls

    async def settle(self, settlements: Iterable[Settlement], *, worker: str) -> None:
        said, began = list(settlements), perf_counter()
        await self._store.settle(said, worker=worker)
        self._note(said, began)

    async def turn(
        self, settlements: Iterable[Settlement], queue: str, **options: Any
    ) -> list[Claim]:
        said, began = list(settlements), perf_counter()
        claims = await self._store.turn(said, queue, **options)
        self._note(said, began)
        return claims

    def _note(self, said: list[Settlement], began: float) -> None:
        jobs = sum(len(one.outcomes) for one in said)
        self._calls.append(Call(jobs, began, perf_counter()))


def timed(app: App, calls: list[Call]) -> App:
    """Return the same app for a worker whose settlements are noted."""
    view = copy(app)

    async def lend() -> Store:
        return TimedStore(await app.lend(), calls)

    vars(view)["lend"] = lend
    return view


@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
async def test_a_job_that_has_ended_is_settled_without_a_wait(
    app: App, is_async: bool, is_busy: bool
) -> None:
    """How long a settlement waits is measured by how long the store takes to answer it."""
    ended, calls, may_end = list[float](), list[Call](), asyncio.Event()

    if is_async:

        @app.job
        async def work() -> None:
            await asyncio.sleep(0.1)  # until the worker waits, and nothing else wakes it
            ended.append(perf_counter())
    else:

        @app.job
        def work() -> None:
            sleep(0.1)
            ended.append(perf_counter())

    @app.job
    async def lasts() -> None:
        await may_end.wait()

    beside = await lasts.submit() if is_busy else None
    async with working(timed(app, calls)):
        for _ in range(JOBS):
            await (await work.submit()).result(timeout=SECONDS_MAX)
            await until(lambda: len(calls) == len(ended))
        may_end.set()
        if beside is not None:
            await beside.result(timeout=SECONDS_MAX)
    waits = [call.began - at for at, call in zip(ended, calls, strict=False)]
    answers = [call.ended - call.began for call in calls]
    assert all(call.jobs == 1 for call in calls)
    assert median(waits) < TIMES * median(answers)


async def test_jobs_that_end_together_are_settled_together(app: App) -> None:
    began, calls, may_end = list[int](), list[Call](), asyncio.Event()

    @app.job
    async def work(n: int) -> None:
        began.append(n)
        await may_end.wait()

    async with working(timed(app, calls), concurrency=100):
        tickets = await app.submit_many([work.call(n) for n in range(100)])
        await until(lambda: len(began) == 100)
        may_end.set()
        for ticket in tickets:
            await ticket.result(timeout=SECONDS_MAX)
    assert sum(call.jobs for call in calls) == 100
    assert len(calls) < 10

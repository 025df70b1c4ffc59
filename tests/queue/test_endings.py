"""Waiting for results: many tickets look together, with one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from uuid import UUID

import pytest

import inturn
from inturn.model.errors import JobFailed, ResultCancelled
from inturn.model.job import JobState
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury
from inturn.store.store import Store
from inturn.worker.worker import Worker
from tests.worker.conftest import until


async def test_many_tickets_are_looked_after_by_one_statement_a_look(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = inturn.App(url)
    looks: list[int] = []
    views = 0

    @app.job
    async def double(n: int) -> int:
        return 2 * n

    ended, one = Store.ended, Store.job

    async def counted(self: Store, jobs: Iterable[UUID]) -> dict[UUID, JobState | None]:
        jobs = list(jobs)
        looks.append(len(jobs))
        return await ended(self, jobs)

    async def viewed(self: Store, job: UUID) -> object:
        nonlocal views
        views += 1
        return await one(self, job)

    monkeypatch.setattr(Store, "ended", counted)
    monkeypatch.setattr(Store, "job", viewed)
    tickets = await app.submit_many(double.call(n) for n in range(200))
    waiting = [asyncio.create_task(ticket.result(timeout=120)) for ticket in tickets]
    await until(lambda: views == 200 and 200 in looks)
    await Worker(app).run(until_empty=True)
    assert await asyncio.gather(*waiting) == [2 * n for n in range(200)]
    assert views == 200, "each looks for itself once, when it begins to wait"
    await app.close()


async def test_a_ticket_hears_of_a_death_and_of_a_cancel_while_it_waits(url: str) -> None:
    app = inturn.App(url)

    @app.job
    async def work() -> None: ...

    dead, gone = await app.submit_many([work.call(), work.call()])
    waiting = [asyncio.create_task(ticket.result()) for ticket in (dead, gone)]
    await asyncio.sleep(0.1)
    await gone.cancel()
    with pytest.raises(ResultCancelled):
        await asyncio.wait_for(waiting[1], 60)
    [claimed] = await app.run(lambda store: store.claim("default", jobs_max=1, worker="w"))
    bury = [Settlement(claimed.lease, [Outcome(claimed.jobs[0], Bury("hopeless"))])]
    await app.run(lambda store: store.settle(bury, worker="w"))
    with pytest.raises(JobFailed):
        await asyncio.wait_for(waiting[0], 60)
    await app.close()

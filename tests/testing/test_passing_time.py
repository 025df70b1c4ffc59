"""Time passes in a drain from one due job to the next, whoever put it off, at a fair cost."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.model.job import JobState, JobView
from inturn.policy.retry import RetryPolicy
from inturn.queue.app import App
from inturn.store.protocol import Page
from inturn.testing import Sandbox, private
from inturn.testing.private_store import PrivateStore
from inturn.worker.worker import Worker
from tests.testing.conftest import START, Shop


@pytest.fixture
def cost(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many workers have begun, and how many jobs were read from the store."""
    cost = {"workers": 0, "jobs": 0}
    run, read_page, read_one = Worker.run, PrivateStore.jobs, PrivateStore.job

    async def counted_run(self: Worker, **options: Any) -> None:
        cost["workers"] += 1
        await run(self, **options)

    async def counted_page(self: PrivateStore, **options: Any) -> Page[JobView]:
        page = await read_page(self, **options)
        cost["jobs"] += len(page.rows)
        return page

    async def counted_one(self: PrivateStore, job: Any) -> JobView:
        cost["jobs"] += 1
        return await read_one(self, job)

    monkeypatch.setattr(Worker, "run", counted_run)
    monkeypatch.setattr(PrivateStore, "jobs", counted_page)
    monkeypatch.setattr(PrivateStore, "job", counted_one)
    return cost


def passed(sandbox: Sandbox) -> float:
    return (sandbox.clock.now() - START).total_seconds()


async def test_many_due_moments_cost_one_worker_and_a_look_at_each_job(
    shop: Shop, store: str, cost: dict[str, int]
) -> None:
    count = 40
    async with private(shop.app, store=store) as sandbox:
        later = [shop.send.using(delay=second).call(f"{second}") for second in range(1, count + 1)]
        await shop.app.submit_many(later)
        cost.update(workers=0, jobs=0)
        assert len((await sandbox.drain(advance="1h")).done) == count
        assert cost["workers"] == 1
        assert count <= cost["jobs"] <= 2 * count
    assert shop.ran == [f"{second}" for second in range(1, count + 1)]


@pytest.mark.parametrize("key", [None, "k"])
async def test_so_do_many_retries(
    shop: Shop, store: str, cost: dict[str, int], key: str | None
) -> None:
    seen: list[float] = []

    policy = RetryPolicy(attempts_max=20, base_seconds=1.0, cap_seconds=1.0, jitter=0.0)

    @shop.app.job(retry=policy)
    async def fail() -> None:
        seen.append(passed(sandbox))
        raise ValueError("again")

    async with private(shop.app, store=store) as sandbox:
        await fail.using(key=key).submit()
        await shop.app.submit_many([shop.send.using(delay=500).call("later") for _ in range(20)])
        cost.update(workers=0, jobs=0)
        drained = await sandbox.drain(advance="1h", raising=False)
        assert (len(drained.retried), len(drained.dead), shop.ran) == (19, 1, ["later"] * 20)
        assert seen == [float(second) for second in range(20)]
        assert cost["workers"] == 1
        assert cost["jobs"] <= 2 * (20 + 20)


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
async def test_what_nobody_has_told_of_runs_at_its_time_too(shop: Shop, store: str) -> None:
    seen: list[tuple[str, float]] = []

    @shop.app.job
    async def note(name: str) -> None:
        seen.append((name, passed(sandbox)))
        if name == "first":  # past the sandbox, as with SQL
            async with App(store, clock=sandbox.clock) as other:
                await other.job(kind="note")(note.function).using(delay=60).submit("unheard")

    async with private(shop.app, store=store) as sandbox:
        await note.using(delay=10).submit("first")
        await note.using(delay=600).submit("last")
        await sandbox.drain(advance="1h")
    assert seen == [("first", 10.0), ("unheard", 70.0), ("last", 600.0)]


async def test_time_does_not_stop_for_what_was_cancelled_or_is_held(shop: Shop, store: str) -> None:
    seen: list[float] = []

    async with private(shop.app, store=store) as sandbox:

        @shop.app.job(queue="other")
        async def cancel() -> None:
            seen.append(passed(sandbox))
            await cancelled.cancel()
            await shop.app.run(lambda store: store.pause("mail", by="ann"))

        await cancel.submit()
        await cancel.using(delay=3000).submit()
        cancelled = await shop.send.using(delay=60, queue="other").submit("cancelled")
        held = await shop.send.using(delay=120).submit("held")
        assert len((await sandbox.drain(advance="1h")).done) == 2
        assert (seen, shop.ran, passed(sandbox)) == ([0.0, 3000.0], [], 3600.0)
        assert (await held.status()).state is JobState.WAITING


async def test_a_kind_that_is_declared_while_time_passes_runs_at_its_time(shop: Shop) -> None:
    seen: list[float] = []

    async with private(shop.app) as sandbox:

        @shop.app.job
        async def declare() -> None:
            @shop.app.job
            async def new() -> None:
                seen.append(passed(sandbox))

            await new.using(delay=60).submit()

        await declare.submit()
        await sandbox.drain(advance="1h")
    assert seen == [60.0]


async def test_a_suspect_runs_as_soon_as_it_may(shop: Shop, store: str) -> None:
    """Its worker is gone for the second time, which a worker that goes on would learn late."""
    seen: list[tuple[str, float]] = []

    @shop.app.job(queue="mail")
    async def note(name: str) -> None:
        seen.append((name, passed(sandbox)))

    async with private(shop.app, store=store) as sandbox:
        await note.submit("suspect")
        for _ in range(2):
            await shop.app.run(lambda store: store.reclaim())
            [claim] = await shop.app.run(
                lambda store: store.claim("mail", jobs_max=1, worker="gone", lease_seconds=30.0)
            )
            sandbox.clock.advance(0 if claim.lease.alone else 30)
        for minutes in range(10):
            await note.using(delay=60.0 * minutes).submit("other")
        await sandbox.drain(advance="1h")
    assert seen[:3] == [("other", 30.0), ("suspect", 61.0), ("other", 90.0)]

"""Schedules: declared by workers, fired once however many there are."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest

import inturn
from inturn.model.clock import ManualClock
from inturn.model.job import JobState
from inturn.poll.schedules import Firing, fire
from inturn.store.store import Store


def firing(app: inturn.App) -> Firing:
    """Return what a worker of an app has."""
    return Firing(app.extension("poll").declared.values())


async def count(store: Store) -> int:
    return len((await store.jobs(rows_max=1_000)).rows)


def hourly(app: inturn.App, **settings: str) -> inturn.Job[[int], None]:
    @app.every("1h", arguments={"number": 7}, **settings)
    @app.job(queue="reports", priority=3)
    def report(number: int) -> None:
        """Do nothing."""

    return report


async def test_a_schedule_submits_its_job_with_its_arguments_at_its_times(
    app: inturn.App, clock: ManualClock
) -> None:
    job = hourly(app)
    assert isinstance(job, inturn.Job)
    store, worker = await app.lend(), firing(app)
    assert await worker.step(store) == 2.0
    clock.advance(3_599)
    assert await worker.step(store) == 1.0
    assert await count(store) == 0
    clock.advance(1)
    assert await worker.step(store) == 0.0
    [view] = (await store.jobs()).rows
    assert (view.job.kind, view.job.queue, view.job.priority) == ("report", "reports", 3)
    assert view.job.payload == '{"number":7}'
    [schedule] = await app.schedules.list()
    assert schedule.last_job == str(view.job.id)
    assert (schedule.next_at - clock.now()).total_seconds() == 3_600
    await worker.step(store)
    assert await count(store) == 1


async def test_a_firing_is_one_job_with_ten_workers_and_through_a_cut(
    app: inturn.App, clock: ManualClock
) -> None:
    """(B-05)"""
    hourly(app)
    store, workers = await app.lend(), [firing(app) for _ in range(10)]
    await asyncio.gather(*(worker.step(store) for worker in workers))
    for hours in range(1, 6):
        clock.advance(3_600)
        with suppress(RuntimeError):
            async with store.transaction() as t:
                await fire(t, workers[0].names, clock.now())
                raise RuntimeError("killed before it has committed")
        await asyncio.gather(*(worker.step(store) for worker in workers))
        assert await count(store) == hours


@pytest.mark.parametrize(("catch_up", "jobs"), [("once", 1), ("skip", 0), ("all", 3)])
async def test_a_worker_that_was_down_over_three_firings_does_as_the_schedule_says(
    app: inturn.App, clock: ManualClock, catch_up: str, jobs: int
) -> None:
    hourly(app, catch_up=catch_up)
    store = await app.lend()
    await firing(app).step(store)
    clock.advance(3 * 3_600 + 60)
    worker = firing(app)
    await worker.step(store)
    await worker.step(store)
    assert await count(store) == jobs
    clock.advance(3_600)
    await worker.step(store)
    assert await count(store) == jobs + 1


async def test_a_changed_rule_begins_anew_and_a_changed_job_keeps_its_time(
    url: str, app: inturn.App, clock: ManualClock
) -> None:
    hourly(app)
    store = await app.lend()
    await firing(app).step(store)
    [before] = await app.schedules.list()
    clock.advance(600)

    def later(declare: Callable[[inturn.App], object]) -> Firing:
        other = inturn.App(url, clock=clock)
        declare(other)
        return firing(other)

    await later(lambda other: hourly(other, catch_up="all")).step(store)
    [same] = await app.schedules.list()
    assert (same.next_at, same.catch_up) == (before.next_at, "all")

    def cron(other: inturn.App) -> None:
        @other.cron("0 4 * * *", timezone="Europe/Berlin", name="report")
        @other.job
        def nightly() -> None:
            """Do nothing."""

    await later(cron).step(store)
    [changed] = await app.schedules.list()
    assert changed.next_at.isoformat() == "2026-01-01T03:00:00+00:00"
    assert changed.kind == "nightly"


async def test_only_what_a_running_worker_declares_fires_and_the_list_says_so(
    url: str, app: inturn.App, clock: ManualClock
) -> None:
    hourly(app)
    store = await app.lend()
    await firing(app).step(store)
    assert [one.declared for one in await app.schedules.list()] == [True]
    clock.advance(3_700)
    assert [one.declared for one in await app.schedules.list()] == [False]
    other = inturn.App(url, clock=clock)

    @other.every(30.0)
    @other.job
    def tick() -> None:
        """Do nothing."""

    await firing(other).step(store)
    assert await count(store) == 0
    assert {one.name: one.declared for one in await app.schedules.list()} == {
        "report": False,
        "tick": True,
    }


async def test_a_person_pauses_resumes_and_runs_a_schedule(
    app: inturn.App, clock: ManualClock
) -> None:
    hourly(app)
    store, worker = await app.lend(), firing(app)
    await worker.step(store)
    await app.schedules.pause("report", by="ann")
    clock.advance(3 * 3_600)
    await worker.step(store)
    assert [one.paused_by for one in await app.schedules.list()] == ["ann"]
    assert await count(store) == 0
    await app.schedules.resume("report")
    await worker.step(store)
    [resumed] = await app.schedules.list()
    assert (resumed.paused_by, resumed.next_at > clock.now()) == (None, True)
    assert await count(store) == 0
    ticket = await app.schedules.run("report")
    assert (await store.job(ticket.id)).state is JobState.WAITING
    with pytest.raises(inturn.NotFound, match="no schedule 'nothing'"):
        await app.schedules.run("nothing")


async def test_what_cannot_be_a_schedule_is_refused_where_it_is_declared(app: inturn.App) -> None:
    def plain() -> None:
        """Do nothing."""

    @app.job
    def greet(name: str) -> None:
        """Do nothing."""

    with pytest.raises(inturn.BadInput, match=r"stands above @app\.job"):
        app.every("5m")(plain)  # type: ignore[type-var]
    with pytest.raises(inturn.BadInput, match=r"'name'\. Its arguments: arguments="):
        app.every("5m")(greet)
    with pytest.raises(inturn.BadInput, match="catch_up is one of"):
        app.every("5m", catch_up="twice")
    with pytest.raises(inturn.BadInput, match="no unit"):
        app.every("5")
    with pytest.raises(inturn.BadInput, match="must be a finite number, not datetime"):
        app.every(timedelta(minutes=5))  # type: ignore[arg-type]
    with pytest.raises(inturn.BadInput, match="no time zone None"):
        app.cron("0 0 * * *", timezone=None)  # type: ignore[arg-type]
    with pytest.raises(inturn.BadInput, match="cron expression must be text"):
        app.cron(5)  # type: ignore[arg-type]
    with pytest.raises(inturn.BadInput, match="arguments are a dict"):
        app.every("5m", arguments=[1])(greet)  # type: ignore[arg-type]
    with pytest.raises(inturn.BadInput, match="schedule is empty"):
        app.every("5m", arguments={"name": "ann"}, name="")(greet)
    app.every("5m", arguments={"name": "ann"})(greet)
    with pytest.raises(inturn.BadInput, match="two schedules 'greet'"):
        app.every("5m", arguments={"name": "bob"})(greet)
    app.every("5m", arguments={"name": "bob"}, name="greet bob")(greet)


async def test_a_full_queue_holds_up_its_own_schedules_only(
    app: inturn.App, clock: ManualClock
) -> None:
    hourly(app)
    app.queue("reports", depth_max=1)

    @app.every("1h")
    @app.job
    def other() -> None:
        """Do nothing."""

    store, worker = await app.lend(), firing(app)
    await worker.step(store)
    for _ in range(2):
        clock.advance(3_600)
        with suppress(inturn.QueueFull):
            await worker.step(store)
    kinds = Counter(view.job.kind for view in (await store.jobs()).rows)
    assert kinds == {"report": 1, "other": 2}
    with pytest.raises(inturn.QueueFull):
        await worker.step(store)


async def test_a_worker_fires_what_its_app_declares_and_a_plain_app_has_no_duty(
    app: inturn.App, url: str
) -> None:
    done = asyncio.Event()

    @app.every("1s")
    @app.job
    async def tick() -> None:
        done.set()

    first, second = inturn.Worker(app), inturn.Worker(app)
    running = [asyncio.create_task(one.run()) for one in (first, second)]
    async with asyncio.timeout(60):
        while not done.is_set():
            await asyncio.sleep(0.05)
            app.clock.advance(1.0)  # type: ignore[union-attr]
    first.stop()
    second.stop()
    await asyncio.gather(*running)
    plain = inturn.App(url)
    plain.extension("poll")
    assert plain.duties == {}


async def test_a_thousand_schedules_fire_at_once(app: inturn.App, clock: ManualClock) -> None:
    job = hourly(app)
    for number in range(999):
        app.every("1h", arguments={"number": number}, name=f"report {number}")(job)
    store, worker = await app.lend(), firing(app)
    await worker.step(store)
    clock.advance(3_600)
    await worker.step(store)
    assert await count(store) == 1_000
    assert await worker.step(store) == 2.0

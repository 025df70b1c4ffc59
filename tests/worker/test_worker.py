"""A worker in this process: every job once, each key in order, every end said as it was."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from collections import defaultdict
from typing import Any

import pytest

from inturn.model.errors import (
    BadInput,
    JobFailed,
    ResultLost,
    WorkerSpent,
)
from inturn.model.job import JobState, NewJob
from inturn.policy.retry import Reject, RetryLater, RetryPolicy
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.worker.worker import Worker
from tests.worker.conftest import prolonged, until, working

QUICK = RetryPolicy(attempts_max=3, base_seconds=0.01, jitter=0.0)


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
async def test_every_job_runs_once_and_each_key_in_order(app: App, is_async: bool) -> None:
    ran: dict[str | None, list[int]] = defaultdict(list)
    running: set[str] = set()

    def begin(key: str | None, n: int) -> None:
        assert key not in running, "two jobs of one key at once"
        if key:
            running.add(key)
        ran[key].append(n)

    if is_async:

        @app.job
        async def work(key: str | None, n: int) -> None:
            begin(key, n)
            await asyncio.sleep(0)
            running.discard(key or "")
    else:

        @app.job
        def work(key: str | None, n: int) -> None:
            begin(key, n)
            running.discard(key or "")

    keys = [None, *(f"key {n}" for n in range(7))]
    jobs = [(keys[n % len(keys)], n) for n in range(800)]
    async with working(app):
        await app.submit_many([work.using(key=key).call(key, n) for key, n in jobs])
        await until(lambda: sum(map(len, ran.values())) == len(jobs))
    for key in keys:
        wanted = [n for k, n in jobs if k == key]
        assert (ran[key] if key else sorted(ran[key])) == wanted
    [status] = await app.run(lambda store: store.queues())
    assert (status.waiting, status.running, status.retrying, status.dead) == (0, 0, 0, 0)


async def test_a_result_reaches_whoever_waits_for_it(app: App) -> None:
    @app.job
    async def double(n: int) -> int:
        return 2 * n

    @app.job(keep_result=None)
    def forget(n: int) -> int:
        return n

    async with working(app):
        assert await (await double.submit(21)).result(timeout=60) == 42
        assert await (await forget.submit(1)).result(timeout=60) is None


async def test_a_failure_is_retried_in_its_place_and_then_buried(app: App) -> None:
    ran: list[tuple[int, int]] = []

    @app.job(retry=QUICK)
    async def work(ctx: Context, n: int) -> None:
        ran.append((n, ctx.attempt))
        if n == 1 and not (ctx.is_last_attempt and flaky):
            raise ValueError("boom")

    flaky = True
    lane = work.using(key="a")
    async with working(app):
        tickets = await app.submit_many([lane.call(n) for n in range(3)])
        await tickets[2].result(timeout=60)
        assert ran == [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1)]
        flaky = False
        dead = await lane.submit(1)
        after = await lane.submit(7)
        with pytest.raises(JobFailed, match="failed 3 times, the last time: ValueError: boom"):
            await dead.result(timeout=60)
        await after.result(timeout=60)
    [letter] = (await app.run(lambda store: store.dead_letters())).rows
    assert [error.error for error in letter.errors] == ["ValueError: boom"] * 3


@pytest.mark.parametrize(("accepted", "declared"), [(1, 3), (3, 1)], ids=["fewer", "more"])
async def test_a_job_that_was_accepted_before_a_deploy_keeps_its_number_of_attempts(
    app: App, accepted: int, declared: int
) -> None:
    ran: list[int] = []

    @app.job(attempts=declared, retry=RetryPolicy(base_seconds=0.0))
    async def work(ctx: Context) -> None:
        ran.append(ctx.attempt)
        raise ValueError("boom")

    old = NewJob(kind="work", payload="{}", attempts_max=accepted)
    await app.run(lambda store: store.enqueue([old]))
    async with working(app) as worker:
        await until(lambda: worker.record.counts.dead == 1)
    assert ran == list(range(1, accepted + 1))


async def test_a_handler_decides_what_becomes_of_its_job_and_when(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """(001-13)"""
    later: list[float] = []

    @app.job(retry=QUICK)
    async def work(what: str) -> None:
        if what == "reject":
            raise Reject("no such customer")
        later.append(time.monotonic())
        if len(later) < 5:
            raise RetryLater(after=0.05, reason="busy", counted=False)

    async with working(app) as worker:
        with pytest.raises(JobFailed, match="rejected: no such customer"):
            await (await work.submit("reject")).result(timeout=60)
        await (await work.submit("later")).result(timeout=60)
        await until(lambda: worker.record.counts.done == 1)
    assert worker.record.counts.failed == 0, "it asked to come later, and did not fail"
    assert not any("busy" in one.message for one in caplog.records if one.levelno > logging.INFO)
    assert len(later) == 5, "an attempt that is not counted is not spent"
    assert all(b - a >= 0.045 for a, b in itertools.pairwise(later))


async def test_a_payload_that_no_longer_fits_is_buried_with_what_to_do(app: App) -> None:
    @app.job
    async def send(to: str) -> None: ...

    await app.run(lambda store: store.enqueue([NewJob(kind="send", payload='{"too": 1}')]))
    async with working(app):
        await until(lambda: _dead(app))
    [letter] = (await app.run(lambda store: store.dead_letters())).rows
    assert "does not fit job 'send'" in letter.reason
    assert letter.attempts == 1


async def test_a_result_that_is_not_json_does_not_run_the_job_again(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []

    @app.job
    async def work() -> object:
        ran.append(1)
        return object()

    async with working(app):
        ticket = await work.submit()
        with pytest.raises(ResultLost, match="could not be kept: ") as lost:
            await ticket.result(timeout=60)
    assert ran == [1]
    assert lost.value.job == ticket.id
    assert f"job {ticket.id} (work) is done, and its result is not kept" in caplog.text
    assert (await ticket.status()).state is JobState.DONE


async def test_kinds_that_nobody_handles_are_left_for_those_who_do(app: App) -> None:
    ran: list[str] = []

    @app.job
    async def mine(n: int) -> None:
        ran.append(f"mine {n}")

    def other(n: int, key: str | None = None) -> NewJob:
        return NewJob(kind="theirs", payload=f'{{"n": {n}}}', key=key)

    ticket = await mine.using(key="a").submit(1)
    await app.run(lambda store: store.enqueue([other(2, key="a"), other(3)]))
    async with working(app):
        await ticket.result(timeout=60)
        await mine.submit(4)
        await until(lambda: len(ran) == 2)
    assert ran == ["mine 1", "mine 4"]
    views = (await app.run(lambda store: store.jobs(kind="theirs"))).rows
    assert [view.state for view in views] == [JobState.WAITING] * 2
    assert [view.attempt for view in views] == [0, 0]


async def test_no_slot_is_held_by_a_job_that_waits_to_be_tried_again(app: App) -> None:
    """(001-14)"""
    ran: list[str] = []

    @app.job(retry=RetryPolicy(attempts_max=2, base_seconds=300.0, jitter=0.0))
    async def fail() -> None:
        ran.append("fail")
        raise ValueError("boom")

    @app.job
    async def work() -> None:
        ran.append("work")

    failing = [await fail.using(key=key).submit() for key in ("a", None)]
    async with working(app, concurrency=1):
        await until(lambda: len(ran) == 2)
        await (await work.submit()).result(timeout=60)
    assert ran == ["fail", "fail", "work"]
    assert {(await one.status()).state for one in failing} == {JobState.RETRYING}


async def test_a_lane_of_two_apps_runs_in_order_and_each_job_once(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.worker.worker.POLL_SECONDS", 0.2)
    ran: list[str] = []
    order, other = "mmtmtt", App(app.url)

    @app.job
    async def mine(n: int) -> None:
        ran.append(f"m{n}")

    @other.job
    async def theirs(n: int) -> None:
        ran.append(f"t{n}")

    jobs = {"m": mine.using(key="a"), "t": theirs.using(key="a")}
    new = [jobs[letter].call(n).new for n, letter in enumerate(order)]
    await app.run(lambda store: store.enqueue(new))
    async with working(app), working(other):
        await until(lambda: len(ran) >= len(order))
    await other.close()
    assert ran == [f"{letter}{n}" for n, letter in enumerate(order)]


async def test_stopping_finishes_what_runs_and_releases_what_does_not(app: App) -> None:
    """(001-21)"""
    may_end = asyncio.Event()
    begun: list[int] = []
    ended: list[int] = []

    @app.job
    async def work(n: int) -> None:
        begun.append(n)
        await may_end.wait()
        ended.append(n)

    tickets = await app.submit_many([work.using(key="a").call(n) for n in range(3)])
    tickets += await app.submit_many([work.call(n) for n in range(10, 20)])
    async with working(app, concurrency=2) as worker:
        await until(lambda: len(begun) == 2)
        worker.stop()
        await asyncio.sleep(0.05)
        may_end.set()
    assert ended == begun
    states = [(await one.status()).state for one in tickets]
    assert states.count(JobState.DONE) == 2
    assert states.count(JobState.WAITING) == 11
    assert {(await one.status()).attempt for one in tickets} == {0}


async def test_a_job_longer_than_its_lease_is_not_stolen(app: App) -> None:
    """It is prolonged even when its handler blocks the loop, or its thread. (001-04)"""
    ran: list[str] = []

    async def seen_prolonged(token: int) -> None:
        elsewhere = App(app.url)
        await prolonged(elsewhere, token)
        await elsewhere.close()

    def block(token: int) -> None:
        watching = threading.Thread(target=asyncio.run, args=[seen_prolonged(token)])
        watching.start()
        watching.join()

    @app.job
    async def blocks(ctx: Context, n: int) -> None:
        ran.append(f"loop {n}")
        block(ctx.token)

    @app.job
    def thread(ctx: Context, n: int) -> None:
        ran.append(f"thread {n}")
        block(ctx.token)

    async with working(app, lease_seconds=60.0, sweep_seconds=0.2):
        tickets = await app.submit_many([thread.using(key="t").call(n) for n in range(2)])
        tickets += await app.submit_many([blocks.using(key="l").call(n) for n in range(2)])
        for ticket in tickets:
            await ticket.result(timeout=60)
    assert sorted(ran) == ["loop 0", "loop 1", "thread 0", "thread 1"]


async def test_jobs_submitted_by_jobs_are_run(app: App) -> None:
    ran: list[int] = []

    @app.job
    async def on_loop(n: int) -> None:
        ran.append(n)
        if n:
            await on_loop.submit(n - 1)

    @app.job
    def on_thread(n: int) -> None:
        ran.append(n)
        if n:
            on_thread.submit_sync(n - 1)

    async with working(app):
        await on_loop.submit(3)
        await on_thread.submit(3)
        await until(lambda: len(ran) == 8)
    assert sorted(ran) == [0, 0, 1, 1, 2, 2, 3, 3]


async def test_a_worker_is_seen_by_others(app: App) -> None:
    @app.job(queue="mail")
    async def send() -> None: ...

    async with working(app, name="w1", sweep_seconds=0.05):
        await until(lambda: _seen(app, "w1"))
        [view] = await app.run(lambda store: store.workers())
    assert "mail" in view.queues  # and what serves the applications that are installed
    assert "send" in view.kinds
    assert await app.run(lambda store: store.workers()) == [], "it has left"


def test_a_worker_with_settings_that_cannot_be_is_refused() -> None:
    app = App("sqlite:///:memory:")
    wrongs: list[dict[str, Any]] = [
        {"concurrency": 0}, {"lease_seconds": -1}, {"queues": ["\x00"]}, {"name": ""},
    ]  # fmt: skip
    for wrong in wrongs:
        with pytest.raises(BadInput):
            Worker(app, **wrong)


async def _dead(app: App) -> bool:
    return bool((await app.run(lambda store: store.dead_letters())).rows)


async def _seen(app: App, name: str) -> bool:
    return name in {view.id for view in await app.run(lambda store: store.workers())}


@pytest.mark.parametrize("is_running", [False, True])
async def test_a_worker_that_is_run_a_second_time_says_that_it_runs_once(
    app: App, is_running: bool
) -> None:
    ran: list[int] = []

    @app.job
    async def work(n: int) -> None:
        ran.append(n)

    await work.submit(1)
    worker = Worker(app, name="w1")
    running = asyncio.create_task(worker.run(until_empty=not is_running))
    if is_running:
        await until(lambda: ran)
    else:
        await running
    await work.submit(2)
    with pytest.raises(WorkerSpent, match="worker w1 has been run already, and a Worker runs once"):
        await worker.run(until_empty=True)
    worker.stop()
    await running
    await Worker(app).run(until_empty=True)
    assert ran == [1, 2]

"""A worker that is told to stop at once, in this process."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from inturn.model.job import JobState
from inturn.model.worker_events import AttemptFailed, Died, WorkerEvent
from inturn.policy.retry import Reject, RetryPolicy
from inturn.queue.app import App
from inturn.worker import record, step, stop
from inturn.worker.worker import Worker
from tests.worker.conftest import until


async def test_what_runs_is_given_back_and_its_attempt_not_counted(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    still_runs = replace(stop.STILL_RUNS, delay_seconds=3_600.0)  # not over before it is seen
    for module in (step, record):
        monkeypatch.setattr(module, "STILL_RUNS", still_runs)
    began: list[str] = []
    cancelled: list[str] = []
    may_end = threading.Event()

    @app.job(attempts=1)
    async def on_loop() -> None:
        began.append("loop")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)  # it may clean up
            cancelled.append("loop")
            raise

    @app.job(attempts=1)
    def on_thread() -> None:
        began.append("thread")
        may_end.wait(60)

    @app.job
    async def behind() -> None:
        began.append("behind")

    tickets = await app.submit_many(
        [on_loop.using(key="k").call(), behind.using(key="k").call(), on_thread.call()]
    )
    worker = Worker(app)
    running = asyncio.create_task(worker.run())
    try:
        await until(lambda: len(began) == 2)
        worker.stop_now()
        async with asyncio.timeout(60):
            await running
    finally:
        may_end.set()
    assert cancelled == ["loop"]
    views = [await one.status() for one in tickets]
    assert [view.attempt for view in views] == [0, 0, 0]
    assert [view.state for view in views] == [
        JobState.WAITING,
        JobState.WAITING,
        JobState.SCHEDULED,  # for a while: its thread may still run
    ]
    assert worker.record.counts.released == 2  # the head of the lane stands for what is behind it


async def test_what_ends_while_it_is_cancelled_is_done(app: App) -> None:
    began = asyncio.Event()

    @app.job
    async def stubborn() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return

    ticket = await stubborn.submit()
    worker = Worker(app)
    running = asyncio.create_task(worker.run())
    await began.wait()
    worker.stop_now()
    await running
    assert (await ticket.status()).state is JobState.DONE


async def test_listeners_hear_what_failed_and_what_died(app: App) -> None:
    heard: list[WorkerEvent] = []

    @app.job(retry=RetryPolicy(attempts_max=3, base_seconds=0.0))
    async def fail(times: int) -> None:
        raise Reject("never") if times == 0 else ValueError("once more")

    def broken(_event: WorkerEvent) -> None:
        raise SystemExit("a listener harms nobody")

    await fail.using(key="k").submit(0)
    await fail.using(key="l").submit(1)
    worker = Worker(app, name="w", listeners=[broken, heard.append])
    running = asyncio.create_task(worker.run())
    await until(lambda: sum(isinstance(one, Died) for one in heard) == 2)
    worker.stop()
    await running
    said = sorted(
        (one.key or "", one.attempt, type(one).__name__)
        for one in heard
        if isinstance(one, AttemptFailed | Died)
    )
    assert said == [
        ("k", 1, "Died"),
        ("l", 1, "AttemptFailed"),
        ("l", 2, "AttemptFailed"),
        ("l", 3, "Died"),
    ]
    assert (worker.record.counts.failed, worker.record.counts.dead) == (2, 2)


async def test_what_runs_when_its_event_loop_ends_is_given_back_and_no_attempt_counted(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'work.db'}"

    async def end_beside_a_worker() -> None:
        app, began = App(url), list[int]()

        @app.job(attempts=1)
        async def work(n: int) -> None:
            began.append(n)
            await asyncio.sleep(60)

        await app.submit_many([work.using(key=f"key {n}").call(n) for n in range(8)])
        worker = asyncio.create_task(Worker(app).run())
        await until(lambda: len(began) == 8)
        assert not worker.done()

    await asyncio.to_thread(asyncio.run, end_beside_a_worker())
    async with App(url) as app:
        views = (await app.run(lambda store: store.jobs())).rows
    assert [(one.state, one.attempt) for one in views] == [(JobState.WAITING, 0)] * 8


async def test_a_worker_whose_file_is_gone_ends_when_told_to_stop(tmp_path: Path) -> None:
    """What it has not settled never can be: the file does not come back while it is open."""
    app = App(f"sqlite:///{tmp_path / 'work.db'}")
    started, goes_on = asyncio.Event(), asyncio.Event()

    @app.job
    async def nap() -> None:
        started.set()
        await goes_on.wait()

    await nap.submit()
    worker = Worker(app)
    running = asyncio.create_task(worker.run())
    await started.wait()
    (tmp_path / "work.db").unlink()
    worker.stop()
    goes_on.set()
    await asyncio.wait_for(running, 20.0)
    await app.close()

"""Stopping: everything accepted is run or reported, whoever races with it.

Promise E3 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
import threading
import time
from queue import SimpleQueue

import pytest
from prometheus_client import CollectorRegistry

import inturn
from inturn.executor import LocalTicket
from inturn.metrics import ExecutorMetrics
from inturn.model.errors import ExecutorClosed, JobCancelled
from tests.executor.support import (
    SECONDS_MAX,
    Failing,
    Seen,
    jump,
    waiting_thread_job,
)


async def fine() -> str:
    return "fine"


def test_stop_drains_everything_also_during_a_backoff() -> None:
    """(004-07)"""

    async def main() -> None:
        executor = inturn.Executor(queue_size=1_000, jitter=0.0, base_backoff=5, max_interval=60)
        jobs = [Failing(number % 4) for number in range(200)]
        tickets = [
            await executor.submit(f"key-{number % 20}", job) for number, job in enumerate(jobs)
        ]
        await asyncio.sleep(1)  # by now keys wait to retry, with jobs behind them
        assert sum(executor.depths()) > 100
        assert not any(job.runs > 1 for job in jobs)
        await executor.stop()
        assert all(ticket.ended and ticket.error is None for ticket in tickets)
        assert [job.runs for job in jobs] == [number % 4 + 1 for number in range(200)]
        assert executor.depths() == [0, 0, 0, 0]
        assert executor.keys_busy == 0

    jump(main)


def test_a_drain_retries_cancels_reports_and_counts_as_usual() -> None:
    """(004-08)"""
    seen = Seen()
    registry = CollectorRegistry()

    def value(name: str, shard: str = "0") -> float | None:
        return registry.get_sample_value(f"inturn_shardqueue_{name}", {"shard": shard})

    async def main() -> None:
        executor = inturn.Executor(
            shards=1,
            slots=3,
            max_attempts=3,
            error_handler=seen.handle,
            listeners=[seen.listen, ExecutorMetrics(registry)],
        )
        gate = asyncio.Event()
        await executor.submit("held", gate.wait)
        cancelled = await executor.submit("held", fine)
        dies = await executor.submit("dies", Failing(9))
        recovers = await executor.submit("recovers", Failing(2))
        await asyncio.sleep(0)
        stopping = asyncio.create_task(executor.stop())
        await asyncio.sleep(0)
        assert cancelled.cancel()
        gate.set()
        await stopping
        assert isinstance(cancelled.error, JobCancelled)
        assert isinstance(dies.error, ValueError)
        assert recovers.value == 3

    jump(main)
    assert sorted(type(one.error).__name__ for one in seen.failures) == [
        "JobCancelled",
        "ValueError",
    ]
    assert (value("retries_total"), value("failures_total")) == (4.0, 1.0)
    assert value("cancellations_total") == 1.0
    assert value("run_duration_seconds_count") == 7.0
    assert value("submissions_total") == 4.0


@pytest.mark.parametrize(("on_thread", "rounds"), [(False, 10_000), (True, 1_000)])
async def test_submit_against_stop_accepted_implies_run_or_reported(
    on_thread: bool, rounds: int
) -> None:
    """A thread submits three jobs to each of 10,000 executors while each is being stopped.

    (004-09)
    """
    accepted: list[LocalTicket] = []
    refused = 0
    ran = 0
    executors: SimpleQueue[inturn.Executor | None] = SimpleQueue()

    async def job_on_loop() -> None:
        nonlocal ran
        ran += 1

    def job_on_thread() -> None:
        nonlocal ran
        ran += 1

    def produce() -> None:
        nonlocal refused
        while (executor := executors.get()) is not None:
            for key in ("a", "a", "b"):
                try:
                    job = job_on_thread if on_thread else job_on_loop
                    accepted.append(executor.submit_sync(key, job))
                except ExecutorClosed:
                    refused += 1

    producer = threading.Thread(target=produce)
    producer.start()
    for number in range(rounds):
        executor = inturn.Executor(slots=1)
        executor.start()
        executors.put(executor)
        for _ in range(number % 4):
            await asyncio.sleep(0)
        if number % 5 == 0:
            time.sleep(0)  # noqa: ASYNC251 - lets the other thread go on
        await executor.stop()
    executors.put(None)
    await asyncio.to_thread(producer.join)
    assert len(accepted) + refused == rounds * 3
    assert all(ticket.ended and ticket.error is None for ticket in accepted)
    assert ran == len(accepted)
    assert accepted
    assert refused


async def test_stop_may_be_called_again_and_by_many() -> None:
    """(004-10)"""
    executor = inturn.Executor()
    gate = asyncio.Event()
    ticket = await executor.submit("one", gate.wait)
    stops = [asyncio.create_task(executor.stop()) for _ in range(20)]
    stops.append(asyncio.create_task(executor.close()))
    await asyncio.sleep(0.01)
    assert not any(stop.done() for stop in stops)
    stops[3].cancel()  # one that gives up waiting changes nothing for the others
    await asyncio.sleep(0)
    gate.set()
    done = await asyncio.gather(*stops, return_exceptions=True)
    assert [one for one in done if one is not None] == [done[3]]
    assert ticket.ended
    await executor.stop()


async def test_submit_after_stop_is_refused() -> None:
    """(004-10)"""
    executor = inturn.Executor()
    await executor.submit("one", fine)
    await executor.stop()
    with pytest.raises(ExecutorClosed, match="stopped"):
        await executor.submit("one", fine)
    with pytest.raises(ExecutorClosed):
        executor.submit_sync("one", fine)
    with pytest.raises(ExecutorClosed):
        await executor.submit_many([("one", fine)])
    with pytest.raises(ExecutorClosed):
        executor.start()
    await executor.barrier("one")


async def test_who_waits_for_room_is_refused_by_a_stop() -> None:
    """(004-10)"""
    gate = asyncio.Event()
    executor = inturn.Executor(shards=1, queue_size=1, enqueue_timeout=SECONDS_MAX)
    await executor.submit("one", gate.wait)
    await executor.submit("one", fine)
    waits = asyncio.create_task(executor.submit("one", fine))
    in_thread = asyncio.create_task(asyncio.to_thread(executor.submit_sync, "one", fine))
    await asyncio.sleep(0.02)
    stopping = asyncio.create_task(executor.stop())
    for refused in (waits, in_thread):
        with pytest.raises(ExecutorClosed):
            await refused
    gate.set()
    await stopping


async def test_a_stop_that_takes_too_long_cancels_and_reports_what_is_left() -> None:
    seen = Seen()
    executor = inturn.Executor(
        slots=2, error_handler=seen.handle, base_backoff=100, max_interval=100, jitter=0
    )
    running = await executor.submit("runs", asyncio.Event().wait)
    behind = await executor.submit("runs", fine)
    retrying = await executor.submit("retries", Failing(9))
    gate = threading.Event()
    thread = await executor.submit("thread", waiting_thread_job(gate))
    waiting = [await executor.submit(f"key-{number}", fine) for number in range(5)]
    at_barrier = asyncio.create_task(executor.barrier("runs"))
    await asyncio.sleep(0.02)
    asyncio.get_running_loop().call_later(0.1, gate.set)
    await executor.stop(timeout="20ms")
    assert at_barrier.done() or await asyncio.wait([at_barrier])
    assert at_barrier.exception() is not None
    assert thread.error is None  # a thread cannot be ended, and was waited for
    for ticket in (running, behind, retrying, *waiting):
        assert isinstance(ticket.error, JobCancelled), ticket
    assert len(seen.failures) == 8
    assert executor.depths() == [0, 0, 0, 0]

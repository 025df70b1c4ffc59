"""Cancelling: while waiting for room, in line, in backoff, while running; reported once.

Promise E3 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time

import pytest

from inturn.executor import LocalTicket
from inturn.model import events
from inturn.model.errors import JobCancelled
from tests.executor.support import (
    SECONDS_MAX,
    Failing,
    Running,
    Seen,
    ended_with,
    jump,
)


async def fine() -> str:
    return "fine"


async def test_cancelled_while_it_waits_for_room_a_job_is_never_accepted() -> None:
    """(004-12)"""
    seen = Seen()
    gate = asyncio.Event()
    ran: list[str] = []
    async with Running(
        shards=1,
        queue_size=1,
        enqueue_timeout=SECONDS_MAX,
        error_handler=seen.handle,
        listeners=[seen.listen],
    ) as executor:

        async def job() -> None:
            ran.append("no")

        await executor.submit("one", gate.wait)
        await executor.submit("one", fine)
        submitting = asyncio.create_task(executor.submit("one", job))
        await asyncio.sleep(0.01)
        submitting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitting
        gate.set()
    assert not ran
    assert not seen.failures  # its caller knows; there is nothing to report
    assert len(seen.of(events.Accepted)) == 2


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_cancelled_before_it_runs_a_job_is_skipped_and_reported_once(
    elsewhere: bool,
) -> None:
    """(004-12)"""
    seen = Seen()
    gate = asyncio.Event()
    ran: list[str] = []

    async def job() -> None:
        ran.append("no")

    async with Running(slots=1, error_handler=seen.handle, listeners=[seen.listen]) as executor:
        await executor.submit("one", gate.wait)
        in_line = await executor.submit("one", job)
        other_key = await executor.submit("two", job)
        for ticket in (in_line, other_key):
            cancel = ticket.cancel
            assert await asyncio.to_thread(cancel) if elsewhere else cancel()
            assert not ticket.cancel()
            assert isinstance(await ended_with(ticket), JobCancelled)
        assert sum(executor.depths()) == 0
        gate.set()
    assert ran == []
    assert len(seen.failures) == len(seen.of(events.Cancelled)) == 2


def test_cancelled_in_backoff_a_job_runs_no_more_and_is_reported_once() -> None:
    """(004-12)"""
    seen = Seen()

    async def main() -> None:
        async with Running(
            slots=1, base_backoff=10, jitter=0.0, error_handler=seen.handle
        ) as executor:
            job = Failing(9)
            ticket = await executor.submit("one", job)
            behind = await executor.submit("one", fine)
            await asyncio.sleep(1)
            loop = asyncio.get_running_loop()
            at = loop.time()
            assert ticket.cancel()
            assert isinstance(await ended_with(ticket), JobCancelled)
            assert await behind.result() == "fine"
            assert loop.time() - at < 0.1  # the key does not sit out the rest of the wait
            await asyncio.sleep(100)
        assert job.runs == 1

    jump(main)
    assert len(seen.failures) == 1


async def test_a_running_coroutine_is_cancelled_and_may_clean_up() -> None:
    seen = Seen()
    cleaned: list[str] = []

    async def job() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    async with Running(slots=1, error_handler=seen.handle) as executor:
        ticket = await executor.submit("one", job)
        await asyncio.sleep(0.01)
        assert await asyncio.to_thread(ticket.cancel)
        assert isinstance(await ended_with(ticket), JobCancelled)
        assert await (await executor.submit("one", fine)).result(SECONDS_MAX) == "fine"
    assert cleaned == ["up"]
    assert len(seen.failures) == 1


async def test_a_thread_is_told_and_is_not_retried() -> None:
    seen = Seen()
    begun = threading.Event()

    async with Running(error_handler=seen.handle, base_backoff=0) as executor:

        def job() -> None:
            current = executor.current()
            assert current is not None
            begun.set()
            while not current.cancel_asked:
                pass
            raise InterruptedError("as asked")

        ticket = await executor.submit("one", job)
        await asyncio.to_thread(begun.wait)
        assert ticket.cancel()
        error = await ended_with(ticket)
    assert isinstance(error, JobCancelled)
    assert isinstance(error.__cause__, InterruptedError)
    assert ticket.attempts == len(seen.failures) == 1


async def test_cancels_from_many_threads_report_each_job_exactly_once() -> None:
    """Jobs that run, fail, wait and retry, cancelled at random from threads: one end each.

    (004-12)
    """
    seen = Seen()
    tickets: list[LocalTicket] = []
    dice = random.Random(3)
    async with Running(
        slots=3,
        queue_size=5_000,
        max_attempts=3,
        base_backoff=0.001,
        error_handler=seen.handle,
        listeners=[seen.listen],
    ) as executor:

        def canceller() -> None:
            own = random.Random(threading.get_ident())
            while len(tickets) < 2_000:
                if tickets:
                    own.choice(tickets[-200:]).cancel()
                time.sleep(0.000_2)

        cancelling = [asyncio.create_task(asyncio.to_thread(canceller)) for _ in range(3)]
        for number in range(2_000):

            async def on_loop(fails: bool = dice.random() < 0.3) -> None:
                if fails:
                    raise ValueError("no")
                await asyncio.sleep(0)

            def on_thread(fails: bool = dice.random() < 0.3) -> None:
                if fails:
                    raise ValueError("no")

            job = on_loop if number % 2 else on_thread
            tickets.append(await executor.submit(f"key-{number % 13}", job))
            if number % 50 == 0:
                await asyncio.sleep(0.001)
        await asyncio.gather(*cancelling)
    assert all(ticket.ended for ticket in tickets)
    bad = [ticket for ticket in tickets if ticket.error is not None]
    assert len(bad) == len(seen.failures) == len({id(one.error) for one in seen.failures})
    assert len(seen.of(events.Cancelled)) == sum(
        isinstance(ticket.error, JobCancelled) for ticket in bad
    )
    assert len(seen.of(events.Cancelled)) > 50
    assert executor.depths() == [0, 0, 0, 0]
    assert executor.free_slots == 3


async def test_a_job_that_is_not_detached_goes_with_its_caller() -> None:
    """(004-17)"""
    seen = Seen()
    tickets: list[LocalTicket] = []
    async with Running(error_handler=seen.handle) as executor:

        async def request(end: bool) -> None:
            for key in ("one", "one", "two"):
                job = asyncio.Event().wait
                tickets.append(await executor.submit(key, job, detached=False))
            done = await executor.submit("three", fine, detached=False)
            await done.result()
            if not end:
                await asyncio.sleep(60)

        cancelled = asyncio.create_task(request(end=False))
        await asyncio.sleep(0.01)
        cancelled.cancel()
        for ticket in list(tickets):
            assert isinstance(await ended_with(ticket), JobCancelled)
        await request(end=True)  # who ends well leaves its jobs alone
        await asyncio.sleep(0.01)
        assert [ticket.ended for ticket in tickets] == [True] * 3 + [False] * 3
        for ticket in tickets:
            ticket.cancel()
    assert len(seen.failures) == 6


@pytest.mark.parametrize("detached", [False, True])
async def test_run_takes_its_job_along_unless_it_is_detached(detached: bool) -> None:
    """(004-17)"""
    begun, gate = asyncio.Event(), asyncio.Event()
    ended: list[str] = []
    async with Running() as executor:

        async def job() -> str:
            begun.set()
            await gate.wait()
            ended.append("ended")
            return "value"

        caller = asyncio.create_task(executor.run("one", job, detached=detached))
        await begun.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        gate.set()
        await executor.barrier("one")
        assert ended == (["ended"] if detached else [])
        gate.set()
        assert await executor.run("one", job) == "value"

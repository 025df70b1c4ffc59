"""Where a handler failed is kept with its error, and told: its own frames, not the worker's."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from types import ModuleType

import pytest

import inturn
from inturn.model import bounds
from inturn.model.errors import JobFailed
from inturn.model.job import AttemptError
from inturn.model.worker_events import AttemptFailed, Died, WorkerEvent
from inturn.policy.retry import RetryPolicy
from inturn.queue.app import App
from inturn.queue.ticket import Ticket
from inturn.worker.record import TRACEBACK_CHARS_MAX
from tests.worker.conftest import working
from tests.worker.test_processes import jobs  # noqa: F401

ONCE = RetryPolicy(attempts_max=1)


def charge(amount: int) -> None:
    if amount > 3:
        raise ValueError("too much")


async def errors_of(ticket: Ticket[None]) -> tuple[AttemptError, ...]:
    """Wait until a job is dead; return its errors."""
    with pytest.raises(JobFailed):
        await ticket.result(timeout=60)
    return (await ticket.status()).errors


def begins_in(trace: str | None, function: str) -> bool:
    """Whether the first frame of a traceback is one of a function in this file."""
    head, first = (trace or "\n").splitlines()[:2]
    return head.startswith("Traceback") and f"{__file__}" in first and f"in {function}" in first


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
async def test_an_error_is_kept_with_the_handlers_own_frames(app: App, is_async: bool) -> None:
    if is_async:

        @app.job(retry=ONCE, timeout=30.0)
        async def pay(amount: int) -> None:
            await asyncio.sleep(0)
            charge(amount)
    else:

        @app.job(retry=ONCE, timeout=30.0)
        def pay(amount: int) -> None:
            charge(amount)

    async with working(app):
        [error] = await errors_of(await pay.submit(7))
    assert error.error == "ValueError: too much"
    assert begins_in(error.traceback, "pay")
    assert "in charge" in (error.traceback or "")
    assert (error.traceback or "").endswith("\nValueError: too much")


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
async def test_a_timeout_says_where_the_handler_was(app: App, is_async: bool) -> None:
    if is_async:

        @app.job(retry=ONCE, timeout=0.1)
        async def dawdle() -> None:
            await asyncio.sleep(60)
    else:

        @app.job(retry=ONCE, timeout=0.1)
        def dawdle() -> None:
            ends_at = time.monotonic() + 60
            while time.monotonic() < ends_at:
                time.sleep(0.001)

    async with working(app):
        [error] = await errors_of(await dawdle.submit())
    assert begins_in(error.traceback, "dawdle")
    assert (error.traceback or "").endswith("\nTimeoutError: it took longer than 0.1 s")
    assert str(Path(inturn.__file__).parent) not in (error.traceback or "")
    assert (error.traceback or "").count("TimeoutError") == 1


async def test_a_trace_from_a_child_process_is_the_childs(jobs: ModuleType) -> None:  # noqa: F811
    async with working(jobs.app):
        first, last = await errors_of(await jobs.ends.submit("raise"))
        killed, _ = await errors_of(await jobs.ends.submit("kill"))
    assert "process_jobs.py" in (first.traceback or "")
    assert "in ends" in (last.traceback or "")
    assert killed.traceback is None, "nothing is known of where it was"


async def test_the_log_and_the_listeners_are_told_where(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[WorkerEvent] = []

    @app.job(retry=RetryPolicy(attempts_max=2, base_seconds=0.01, jitter=0.0))
    async def pay() -> None:
        charge(7)

    async with working(app, listeners=[told.append]):
        await errors_of(await pay.submit())
    failed, died = [one for one in told if isinstance(one, AttemptFailed | Died)]
    assert begins_in(failed.traceback, "pay")
    assert begins_in(died.traceback, "pay")
    records = [one for one in caplog.records if one.name == "inturn.worker"]
    assert [one.levelno for one in records] == [logging.WARNING, logging.ERROR]
    for record in records:
        assert "\n" not in record.getMessage()
        assert begins_in(record.exc_text, "pay"), "where logging has those of exceptions"


async def test_a_long_trace_is_kept_and_told_by_its_end(app: App) -> None:
    told: list[WorkerEvent] = []

    @app.job(retry=ONCE)
    async def pay() -> None:
        raise ValueError("x" * 100_000 + " the end\x00\udc80")

    async with working(app, listeners=[told.append]):
        [error] = await errors_of(await pay.submit())
    assert len(error.traceback or "") == bounds.TRACEBACK_CHARS_MAX
    assert (error.traceback or "").startswith("…x")
    assert (error.traceback or "").endswith(r"the end\0\udc80")
    [died] = [one for one in told if isinstance(one, Died)]
    assert len(died.traceback or "") <= TRACEBACK_CHARS_MAX + 2

"""A job that fails: retried, given up, reported once, and never the end of a slot.

Promise E3 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
import itertools
import threading

import pytest

from inturn.model import events
from inturn.model.errors import (
    EarlierFailure,
    KeyHalted,
)
from inturn.policy.retry import Reject, RetryLater
from tests.executor.support import SECONDS_MAX, Failing, Running, Seen, ended_with, jump


class Strange(BaseException):
    """Not an Exception."""


ERRORS = [ValueError("no"), SystemExit(3), Strange("odd")]


async def fine() -> str:
    return "fine"


@pytest.mark.parametrize("on_thread", [False, True])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_whatever_a_job_raises_its_slot_goes_on(
    error: BaseException, on_thread: bool
) -> None:
    """(004-05)"""
    seen = Seen()

    def on_threads() -> None:
        raise error

    async def on_loop() -> None:
        await asyncio.sleep(0)
        raise error

    async with Running(
        shards=1, max_attempts=2, base_backoff=0, error_handler=seen.handle
    ) as executor:
        bad = await executor.submit("one", on_threads if on_thread else on_loop)
        good = await executor.submit("one", fine)
        assert await good.result(SECONDS_MAX) == "fine"
        assert bad.error is error
        assert executor.free_slots == 1
    [failure] = seen.failures
    assert failure.error is error
    # By policy only an Exception is tried again.
    assert failure.attempts == (2 if isinstance(error, Exception) else 1)


@pytest.mark.parametrize("raised", [RuntimeError("handler"), SystemExit(1)])
async def test_an_error_handler_that_fails_harms_nothing(
    raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """(004-06)"""
    calls = []

    def handler(failure: object) -> None:
        calls.append(failure)
        raise raised

    def broken_listener(event: object) -> None:
        raise RuntimeError("listener")

    async with Running(
        shards=1, max_attempts=1, error_handler=handler, listeners=[broken_listener]
    ) as executor:
        for job in (Failing(1), lambda: 1 / 0):
            bad = await executor.submit("one", job)
            good = await executor.submit("one", fine)
            assert await good.result(SECONDS_MAX) == "fine"
            assert bad.error is not None
    assert len(calls) == 2
    assert "the error handler failed on a job of key 'one'" in caplog.text
    assert "a listener failed" in caplog.text


@pytest.mark.parametrize("attempts", [1, 2, 8])
def test_a_job_runs_exactly_max_attempts_times(attempts: int) -> None:
    """(004-13)"""

    async def main() -> None:
        seen = Seen()
        job = Failing(1_000)
        async with Running(max_attempts=attempts, error_handler=seen.handle) as executor:
            ticket = await executor.submit("one", job)
            assert await ended_with(ticket) is job.error
        assert job.runs == attempts == ticket.attempts
        assert [failure.attempts for failure in seen.failures] == [attempts]

    jump(main)


def test_delays_double_up_to_the_cap_and_no_run_comes_early() -> None:
    """(004-13)"""
    ran_at: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def job() -> None:
            ran_at.append(loop.time())
            raise ValueError("no")

        async with Running(
            max_attempts=8, base_backoff="100ms", max_interval="2s", jitter=0.0
        ) as executor:
            await executor.submit("one", job)

    jump(main)
    gaps = [later - sooner for sooner, later in itertools.pairwise(ran_at)]
    assert gaps == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0], abs=1e-3)


class Gone(Exception):
    """Like HTTP 404."""


@pytest.mark.parametrize("error", [Reject("never"), Gone("404")])
async def test_permanent_errors_are_not_retried(error: Exception) -> None:
    """(004-14)"""
    seen = Seen()
    job = Failing(9, error)
    async with Running(permanent=(Gone,), error_handler=seen.handle) as executor:
        assert await ended_with(await executor.submit("one", job)) is error
    assert job.runs == len(seen.failures) == 1


def test_a_job_may_say_when_to_come_back() -> None:
    seen = Seen()

    async def main() -> None:
        async with Running(max_attempts=1, listeners=[seen.listen]) as executor:
            later = Failing(3, RetryLater(after=600, counted=False))
            assert await (await executor.submit("one", later)).result() == 4

    jump(main)
    assert [event.delay_seconds for event in seen.of(events.Retried)] == [600.0] * 3


async def test_a_failed_job_holds_back_its_key_and_nothing_overtakes() -> None:
    ran: list[str] = []
    async with Running(base_backoff=0.01, slots=4) as executor:
        failing = Failing(2)

        async def first() -> None:
            ran.append("first")
            await failing.run()

        async def second() -> None:
            ran.append("second")

        await executor.submit("one", first)
        await executor.submit("one", second)
    assert ran == ["first", "first", "first", "second"]


async def test_by_policy_a_key_goes_on_after_a_final_failure() -> None:
    """(004-15)"""
    async with Running(max_attempts=1, on_dead="skip") as executor:
        await executor.submit("one", Failing(1))
        assert await (await executor.submit("one", fine)).result(SECONDS_MAX) == "fine"
        assert executor.halted() == {}


@pytest.mark.parametrize("on_thread", [False, True])
async def test_by_policy_a_key_is_halted_by_a_final_failure(on_thread: bool) -> None:
    """(004-15)"""
    seen = Seen()
    gate = threading.Event()

    def on_threads() -> None:
        gate.wait(SECONDS_MAX)
        raise ValueError("bad")

    async def on_loop() -> None:
        await asyncio.to_thread(gate.wait, SECONDS_MAX)
        raise ValueError("bad")

    async with Running(
        max_attempts=1, on_dead="halt", error_handler=seen.handle, listeners=[seen.listen]
    ) as executor:
        bad = await executor.submit("one", on_threads if on_thread else on_loop)
        behind = [await executor.submit("one", fine) for _ in range(3)]
        at_barrier = asyncio.create_task(executor.barrier("one"))
        await asyncio.sleep(0)
        gate.set()
        assert isinstance(await ended_with(bad), ValueError)
        for ticket in behind:
            assert isinstance(await ended_with(ticket), KeyHalted)
        with pytest.raises(EarlierFailure, match="'ValueError: bad'"):
            await at_barrier
        with pytest.raises(KeyHalted, match="resume"):
            await executor.submit("one", fine)
        with pytest.raises(EarlierFailure):
            await executor.barrier("one")
        other = await executor.submit("two", fine)
        assert await other.result(SECONDS_MAX) == "fine"
        assert executor.halted() == {"one": "ValueError: bad"}
        assert executor.resume("one")
        assert not executor.resume("one")
        assert await (await executor.submit("one", fine)).result(SECONDS_MAX) == "fine"
        await executor.barrier("one")
        assert executor.depths() == [0, 0, 0, 0]
    assert len(seen.failures) == len(seen.of(events.Failed)) == 4
    assert not seen.of(events.Cancelled), "what stood behind it has failed: nobody cancelled it"
    assert [event.left for event in seen.of(events.Halted)] == [3]

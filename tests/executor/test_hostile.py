"""Errors, policies and listeners that fail when they are looked at: no slot and no key is lost."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import pytest

from inturn.executor import LocalTicket
from inturn.model import events
from inturn.model.errors import EarlierFailure, JobCancelled
from inturn.policy.retry import RetryLater
from tests.executor.support import SECONDS_MAX, Running, Seen, ended_with


def _raise(*_: Any) -> Any:
    raise RuntimeError("leave me alone")


def _exit(*_: Any) -> Any:
    raise SystemExit(1)


@dataclass(frozen=True)
class Frozen(Exception):
    id: int = 7


class Unreadable(Exception):
    __str__ = _raise
    __repr__ = _raise


class Fussy:
    """Says yes once."""

    asked = False

    def __bool__(self) -> bool:
        if self.asked:
            raise RuntimeError("again?")
        self.asked = True
        return True


class Later(RetryLater):
    """Wants to come back, and says it in a way that cannot be understood."""

    def __init__(self) -> None:
        self.after, self.reason, self.counted = 0.0, "busy", Fussy()  # type: ignore[assignment]


HOSTILE: dict[str, type[BaseException]] = {
    "frozen": Frozen,
    "unreadable": Unreadable,
    "later": Later,
}
each_hostile = pytest.mark.parametrize("kind", HOSTILE.values(), ids=HOSTILE)


async def fine() -> str:
    return "fine"


@pytest.fixture(params=["loop", "stepped", "thread", "returned"])
def raising(request: pytest.FixtureRequest) -> Callable[[type[BaseException]], Any]:
    """A job that raises an error, wherever jobs run."""

    def job_of(kind: type[BaseException]) -> Any:
        async def on_loop() -> None:
            if request.param != "loop":
                await asyncio.sleep(0)
            raise kind()

        def on_thread() -> None:
            raise kind()

        jobs: dict[str, Any] = {"thread": on_thread, "returned": lambda: on_loop()}
        return jobs.get(request.param, on_loop)

    return job_of


async def check_goes_on(executor: Running, ticket: LocalTicket) -> None:
    """See that a job has ended, its key and its slot go on, and the executor can be stopped."""
    async with asyncio.timeout(SECONDS_MAX):
        await ended_with(ticket)
        assert await executor.run("one", fine) == "fine"
        assert await executor.run("other", lambda: "fine") == "fine"
        with pytest.raises(EarlierFailure):
            await executor.barrier("one")
        assert executor.free_slots == 1
        await executor.stop()


@pytest.mark.parametrize("handled", [True, False], ids=["handled", "logged"])
@each_hostile
async def test_004_05_an_error_that_fails_when_it_is_looked_at_ends_its_job_alone(
    kind: type[BaseException],
    raising: Callable[[type[BaseException]], Any],
    handled: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = Seen()
    handler = seen.handle if handled else None
    async with Running(
        slots=1, max_attempts=2, base_backoff=0, error_handler=handler, listeners=[seen.listen]
    ) as executor:
        ticket = await executor.submit("one", raising(kind))
        await check_goes_on(executor, ticket)
    assert type(ticket.error) is kind
    [failed] = seen.of(events.Failed)
    assert failed.error is ticket.error
    assert [failure.error is ticket.error for failure in seen.failures] == [True] * handled
    if not handled:
        assert "key 'one'" in caplog.text


async def test_004_05_a_frozen_error_is_retried_as_any_other(
    raising: Callable[[type[BaseException]], Any],
) -> None:
    async with Running(slots=1, max_attempts=3, base_backoff=0) as executor:
        ticket = await executor.submit("one", raising(Frozen))
        with pytest.raises(Frozen):
            await ticket.result(SECONDS_MAX)
    assert ticket.attempts == 3


@each_hostile
async def test_each_who_waits_for_a_job_gets_its_error_with_the_trace_of_the_job_alone(
    kind: type[BaseException], raising: Callable[[type[BaseException]], Any]
) -> None:
    traces: list[list[str]] = []
    async with Running(max_attempts=1, error_handler=lambda failure: None) as executor:
        ticket = await executor.submit("one", raising(kind))
        for wait in [ticket.result] * 3 + [partial(asyncio.to_thread, ticket.result_sync)] * 3:
            with pytest.raises(BaseException) as raised:  # noqa: PT011 - its own is asked for below
                await wait(SECONDS_MAX)
            assert raised.value is ticket.error
            trace = vars(BaseException)["__traceback__"].__get__(raised.value)
            traces.append([one.name for one in traceback.extract_tb(trace)])
    assert traces[0] == traces[1] == traces[2]
    assert traces[3] == traces[4] == traces[5]
    assert traces[0][-1] == traces[3][-1] in ("on_loop", "on_thread")


@each_hostile
async def test_a_key_is_halted_by_an_error_that_fails_when_it_is_looked_at(
    kind: type[BaseException], raising: Callable[[type[BaseException]], Any]
) -> None:
    async with Running(slots=1, max_attempts=1, on_dead="halt") as executor:
        ticket = await executor.submit("one", raising(kind))
        await ended_with(ticket)
        assert type(ticket.error) is kind
        assert list(executor.halted()) == ["one"]
        assert await executor.run("two", fine) == "fine"
        assert executor.resume("one")
        assert await executor.run("one", fine) == "fine"


@each_hostile
async def test_what_a_job_submitted_lives_on_whatever_the_job_raises(
    kind: type[BaseException],
) -> None:
    async with Running(slots=2, max_attempts=1) as executor:
        submitted: list[LocalTicket] = []
        gate = asyncio.Event()

        async def job() -> None:
            submitted.append(await executor.submit("two", gate.wait, detached=False))
            raise kind()

        ticket = await executor.submit("one", job)
        await ended_with(ticket)
        assert await executor.run("one", fine) == "fine"
        gate.set()
        assert await submitted[0].result(SECONDS_MAX) is True


class Unsure(type):
    __instancecheck__ = _exit


class Permanent(Exception, metaclass=Unsure):
    pass


class NoRandom(Random):
    def random(self) -> float:
        raise SystemExit(1)


@pytest.mark.parametrize(
    "settings", [{"permanent": (Permanent,)}, {"random": NoRandom()}], ids=["permanent", "random"]
)
async def test_a_policy_that_fails_ends_the_job_and_says_so(
    settings: dict[str, Any],
    raising: Callable[[type[BaseException]], Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Running(slots=1, **settings) as executor:
        ticket = await executor.submit("one", raising(ValueError))
        await check_goes_on(executor, ticket)
    assert type(ticket.error) is ValueError
    assert "whether a job of key 'one' may run again cannot be told" in caplog.text


class Sulking:
    """A listener, and an error handler, that shows nothing of itself and fails in every way."""

    __repr__ = _exit

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __call__(self, event: object) -> None:
        raise self.kind()


@each_hostile
async def test_a_listener_and_a_handler_that_raise_such_errors_harm_nothing(
    kind: type[BaseException], raising: Callable[[type[BaseException]], Any]
) -> None:
    sulking = Sulking(kind)
    async with Running(
        slots=1, max_attempts=2, base_backoff=0, listeners=[sulking], error_handler=sulking
    ) as executor:
        ticket = await executor.submit("one", raising(ValueError))
        await check_goes_on(executor, ticket)
    assert type(ticket.error) is ValueError


@pytest.fixture(params=[_raise, _exit], ids=["an error", "an exit"])
def broken_log(request: pytest.FixtureRequest) -> Iterator[None]:
    """A log with a filter of somebody's that fails."""
    log = logging.getLogger("inturn.executor")
    log.addFilter(request.param)
    yield
    log.removeFilter(request.param)


@pytest.mark.usefixtures("broken_log")
async def test_a_log_that_fails_harms_nothing(
    raising: Callable[[type[BaseException]], Any],
) -> None:
    async with Running(slots=1, max_attempts=1) as executor:
        ticket = await executor.submit("one", raising(ValueError))
        await check_goes_on(executor, ticket)
    assert type(ticket.error) is ValueError


async def test_a_coroutine_that_will_not_be_closed_harms_nothing() -> None:
    async def stays() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            raise RuntimeError("I stay")

    async with Running(slots=1) as executor:

        def job() -> Any:
            coroutine = stays()
            coroutine.send(None)
            current = executor.current()
            assert current is not None
            current.cancel()
            return coroutine

        ticket = await executor.submit("one", job)
        assert isinstance(await ended_with(ticket), JobCancelled)
        assert await executor.run("one", fine) == "fine"


def test_who_waited_on_a_loop_that_is_closed_keeps_no_slot() -> None:
    home, other = asyncio.new_event_loop(), asyncio.new_event_loop()
    gate = asyncio.Event()

    async def submit() -> tuple[Running, list[LocalTicket]]:
        executor = Running(slots=1)
        return executor, [await executor.submit("one", job) for job in (gate.wait, fine)]

    async def wait(ticket: LocalTicket) -> asyncio.Task[Any]:
        waiting = asyncio.create_task(ticket.result())
        await asyncio.sleep(0)
        return waiting

    async def go_on(executor: Running) -> None:
        gate.set()
        assert await asyncio.wait_for(executor.run("one", fine), SECONDS_MAX) == "fine"
        await asyncio.wait_for(executor.stop(), SECONDS_MAX)

    try:
        executor, tickets = home.run_until_complete(submit())
        waiting = other.run_until_complete(wait(tickets[0]))
        other.close()
        home.run_until_complete(go_on(executor))
        assert [ticket.value for ticket in tickets] == [True, "fine"]
        waiting._log_destroy_pending = False  # type: ignore[attr-defined]
    finally:
        home.close()

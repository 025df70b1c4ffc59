"""Errors, policies and listeners that fail when they are looked at: no slot and no key is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from inturn.executor import LocalTicket
from inturn.model import events
from inturn.model.errors import EarlierFailure
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
async def test_an_error_that_fails_when_it_is_looked_at_ends_its_job_alone(
    kind: type[BaseException],
    raising: Callable[[type[BaseException]], Any],
    handled: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """(004-05)"""
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


async def test_a_frozen_error_is_retried_as_any_other(
    raising: Callable[[type[BaseException]], Any],
) -> None:
    """(004-05)"""
    async with Running(slots=1, max_attempts=3, base_backoff=0) as executor:
        ticket = await executor.submit("one", raising(Frozen))
        with pytest.raises(Frozen):
            await ticket.result(SECONDS_MAX)
    assert ticket.attempts == 3


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


@pytest.fixture(params=[_raise, _exit], ids=["an error", "an exit"])
def broken_log(request: pytest.FixtureRequest) -> Iterator[None]:
    """A log with a filter of somebody's that fails."""
    log = logging.getLogger("inturn.executor")
    log.addFilter(request.param)
    yield
    log.removeFilter(request.param)

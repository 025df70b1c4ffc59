"""What tests of the executor share: a loop whose time jumps, jobs that block, counted steps."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

import inturn
from inturn.executor import Failure, LocalTicket
from inturn.model import events

T = TypeVar("T")

SECONDS_MAX = 60.0  # for anything in these tests that could hang
JUMPED_SECONDS_MAX = 1e9  # the same where time jumps, and an hour is nothing


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting, says that the time has passed."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            self.passed += timeout  # time passes only when there is nothing else to do
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop on which an hour of backoff takes no time. Not for jobs on threads."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.passed


def jump(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a loop whose time jumps."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(main())


class Seen:
    """Keeps what an executor tells: its events, and what its error handler was called with."""

    def __init__(self) -> None:
        self.events: list[events.Event] = []
        self.failures: list[Failure] = []

    def listen(self, event: events.Event) -> None:
        self.events.append(event)

    def handle(self, failure: Failure) -> None:
        self.failures.append(failure)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


class Failing:
    """An async job that fails so many times and then returns how often it ran."""

    def __init__(self, times: int, error: Exception | None = None) -> None:
        self.times = times
        self.error = error or ValueError("no")
        self.runs = 0

    async def run(self) -> int:
        self.runs += 1
        if self.runs <= self.times:
            raise self.error
        return self.runs


def waiting_thread_job(gate: threading.Event) -> Callable[[], None]:
    """Return a job for a thread that ends when the gate is set."""

    def job() -> None:
        assert gate.wait(SECONDS_MAX)

    return job


async def ended_with(ticket: LocalTicket) -> BaseException | None:
    """Wait for a job and return what it failed with, or None."""
    with contextlib.suppress(BaseException):
        await ticket.result(SECONDS_MAX)
    assert ticket.ended
    return ticket.error


def keys_of_one_shard(executor: Any, count: int, shard: int = 0) -> list[str]:
    """Return keys that hash alike."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        if executor.shard_for(f"key-{number}") == shard:
            found.append(f"key-{number}")
        number += 1
    return found


class Running(inturn.Executor):
    """An executor that does not wait for jobs that never end when the test has failed already.

    What is done with it has an end too, so that a test in which something hangs fails with a word.
    """

    async def __aenter__(self) -> Self:
        is_jumping = isinstance(asyncio.get_running_loop(), JumpingLoop)
        self._bound = asyncio.timeout(JUMPED_SECONDS_MAX if is_jumping else 2 * SECONDS_MAX)
        await self._bound.__aenter__()
        return await super().__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                await self.stop()
            except BaseException as stuck:
                kind, error, trace = type(stuck), stuck, stuck.__traceback__
        if error is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stop(0.0), SECONDS_MAX / 12)
        await self._bound.__aexit__(kind, error, trace)
        if error is not None:
            raise error

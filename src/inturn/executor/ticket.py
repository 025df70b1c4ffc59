"""What a submitter gets back from an executor: a job in line, its outcome, a way to cancel it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import Context
from enum import Enum
from math import inf
from threading import TIMEOUT_MAX, Event, get_ident
from types import CoroutineType, TracebackType
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from inturn.executor.settings import Seconds, seconds
from inturn.model.errors import JobFailed
from inturn.policy.raised import describe

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from inturn.executor.job_ends import JobEnds

    Value = TypeVar("Value", covariant=True, default=Any)  # the executor looks at no value
else:
    from typing import TypeVar

    Value = TypeVar("Value", covariant=True)


class LoopWakeup:
    """One wait of a coroutine, on any loop, that may be ended from any thread."""

    __slots__ = ("_future", "_loop", "_thread")

    def __init__(self) -> None:
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        self._future: asyncio.Future[None] = self._loop.create_future()

    def set(self) -> None:
        """End the wait."""
        if get_ident() == self._thread:
            self._end()
            return
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits there
            self._loop.call_soon_threadsafe(self._end)

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until it is set, or for so many seconds; the caller looks which."""
        timer = None if seconds is None else self._loop.call_later(seconds, self._end)
        try:
            await self._future
        finally:
            if timer is not None:
                timer.cancel()

    def _end(self) -> None:
        if not (self._future.done() or self._loop.is_closed()):
            self._future.set_result(None)


class State(Enum):
    """Where a job of an executor is."""

    WAITING = "waiting"  # it takes room, once it is accepted
    STARTING = "starting"  # it has a slot, and takes none
    RUNNING = "running"
    RETRYING = "retrying"  # it failed, waits to run again, and takes room
    ENDING = "ending"  # its end is decided and being reported
    ENDED = "ended"


_ENDED = State.ENDED  # to find a member in its class takes longer than to compare it


class LocalTicket(msgspec.Struct, Generic[Value], eq=False):
    """A job of an executor and its one outcome. Only the executor writes to it.

    ``value`` is what the job returned, ``error`` what it failed with for good; both are None until
    it has ended. It may be used from any thread.
    """

    key: str
    shard: int
    call: Callable[[], Any] | None
    place: int  # where it runs next
    context: Context | None  # None: an empty one
    ends: JobEnds
    state: State = State.WAITING
    attempts: int = 0
    value: Any = None
    error: BaseException | None = None
    cancel_why: str | None = None
    signals: list[Callable[[], None]] | None = None
    begun: CoroutineType[Any, Any, Any] | None = None  # what a def returned, to be awaited
    trace: TracebackType | None = None  # of the error, as it ended with it

    @property
    def cancel_asked(self) -> bool:
        """Whether someone wants the job to end: for a job on a thread to look at."""
        return self.cancel_why is not None

    @property
    def ended(self) -> bool:
        """Whether the job has its outcome."""
        return self.state is _ENDED

    async def result(self, timeout: Seconds | None = None) -> Value:
        """Wait for the outcome: return the job's value, or raise what it failed with.

        What is no ``Exception``, such as ``SystemExit``, would end the caller's loop: it is the
        cause of a ``JobFailed``. A timeout (``TimeoutError``) or a cancelled wait leaves the job as
        it is.
        """
        if self.state is _ENDED and self.error is None and timeout is None:
            return self.value  # type: ignore[no-any-return]  # it has ended, and well, as most have
        patience = None if timeout is None else _patience(timeout)
        if self.state is not _ENDED:
            self._check_ends("result", patience)
            signal = LoopWakeup()
            if self.ends.on_end(self, signal.set):
                try:
                    await signal.wait(patience)
                finally:
                    self.ends.forget(self, signal.set)
        return self._outcome(patience)

    def result_sync(self, timeout: Seconds | None = None) -> Value:
        """Wait for the outcome on a thread that runs no loop."""
        patience = None if timeout is None else _patience(timeout)
        if self.state is not _ENDED:
            self.ends.check_may_block("result_sync")
            self._check_ends("result_sync", patience)
            signal = Event()
            if self.ends.on_end(self, signal.set):
                signal.wait(patience)
                self.ends.forget(self, signal.set)
        return self._outcome(patience)

    def cancel(self) -> bool:
        """Take the job back; say whether there was still something to take back.

        A job that waits, or waits to run again, does not run any more. An ``async def`` that runs
        gets a ``CancelledError``. A ``def`` that runs on a thread cannot be stopped from outside:
        it sees ``cancel_asked`` on its ticket if it looks, and is not retried.
        """
        if self.state is _ENDED:
            return False
        return self.ends.cancel(self, "its submitter took it back")

    def __repr__(self) -> str:
        tried = f", attempt {self.attempts}" if self.attempts else ""
        error = "" if self.error is None else f", with {type(self.error).__name__}"
        return f"<LocalTicket of key {self.key!r}, {self.state.value}{tried}{error}>"

    def _check_ends(self, verb: str, timeout: float | None) -> None:
        """Refuse a wait without end: of a job for itself, or for a job behind it in line."""
        if timeout is None and self.state is not State.ENDING:
            self.ends.check_not_own(verb, self.key)

    def _outcome(self, timeout: float | None) -> Value:
        if self.state is not _ENDED:
            raise TimeoutError(f"a job of key {self.key!r} has not ended within {timeout:g} s.")
        if self.error is not None:
            if isinstance(self.error, Exception):
                # Without the frames of those to whom it was raised before.
                raise BaseException.with_traceback(self.error, self.trace)
            reason = f"a job of key {self.key!r} failed for good with {describe(self.error)}"
            raise JobFailed(None, reason) from self.error
        return self.value  # type: ignore[no-any-return]


def _patience(timeout: Seconds) -> float:
    """Return for how many seconds to wait, at most as many as a thread can."""
    return min(seconds("timeout", timeout, highest=inf), TIMEOUT_MAX)

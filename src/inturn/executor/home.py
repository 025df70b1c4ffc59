"""The loop that an executor lives on, and how other threads and other loops are reached from it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Any


class Home:
    """A loop and its thread. What other threads ask of it arrives together, with one wake-up."""

    __slots__ = ("_asked", "_woken", "loop", "thread")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.thread = get_ident()
        self._asked: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._woken = False

    @property
    def runs_here(self) -> bool:
        """Whether this thread is the one that the loop is running on now."""
        return get_ident() == self.thread and self.loop.is_running()

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on the loop's thread: at once if this is it, else soon."""
        if get_ident() == self.thread:
            function(*arguments)
            return
        self._asked.append((function, arguments))
        # Two threads that both find it unset wake the loop twice, which does no harm. One that
        # finds it set is heard: the loop unsets it before it looks.
        if not self._woken:
            self._woken = True
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits there
                self.loop.call_soon_threadsafe(self._answer)

    def interrupt(self, error: KeyboardInterrupt) -> None:
        """End what the loop runs, in its next turn; on another thread do nothing."""
        if self.runs_here:
            self.loop.call_soon(_raise, error)

    def _answer(self) -> None:
        self._woken = False
        while self._asked:
            function, arguments = self._asked.popleft()
            try:
                function(*arguments)
            except Exception as error:  # what was asked behind it is still done
                self.loop.call_exception_handler(
                    {"message": "a call into an executor's loop failed", "exception": error}
                )


def _raise(error: BaseException) -> None:
    raise error


class LoopSignal:
    """One wait of a coroutine, on any loop, that may be ended from any thread."""

    __slots__ = ("_future", "_home", "_loop", "_thread")

    def __init__(self, home: Home | None = None) -> None:
        self._home = home
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self._future: asyncio.Future[None] = self._loop.create_future()

    def fire(self) -> None:
        """End the wait."""
        if get_ident() == self._thread:
            self._end()
        elif self._home is not None and self._home.loop is self._loop:
            self._home.call(self._end)
        else:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits there
                self._loop.call_soon_threadsafe(self._end)

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until it is fired, or so long; the caller looks which."""
        timer = None if seconds is None else self._loop.call_later(seconds, self._end)
        try:
            await self._future
        finally:
            if timer is not None:
                timer.cancel()

    def _end(self) -> None:
        if not (self._future.done() or self._loop.is_closed()):
            self._future.set_result(None)


class ThreadSignal:
    """One wait of a thread that may be ended from any other."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def fire(self) -> None:
        """End the wait."""
        self._event.set()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it is fired, or so long; the caller looks which."""
        self._event.wait(seconds)


Signal = LoopSignal | ThreadSignal

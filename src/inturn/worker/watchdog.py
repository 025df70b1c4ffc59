"""The watchdog: ends ``def`` handlers at their timeout, and says where the event loop is stuck."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TypeVar

from inturn.log import log_loop_blocked, log_not_ended
from inturn.worker.handler_threads import Deadline
from inturn.worker.health import WorkerHealth

GRACE_SECONDS = 1.0
"""How long a handler may take to end after it was told to, before the log says that it has not."""

SAY_SECONDS = 60.0  # between two lines that say where the loop is stuck
LOOK_SECONDS_MAX = 0.5
AGAIN_SECONDS = 0.01  # until a deadline that came before its call began is looked at again

_NOT_THEIRS = (str(Path(__file__).parents[1]), str(Path(asyncio.__file__).parent))

Answer = TypeVar("Answer")


class Watchdog:
    """Looks at the clock while handlers do not.

    ``loop_seconds_max``: how long the loop may stand still before the log says so.
    """

    def __init__(self, health: WorkerHealth, *, loop_seconds_max: float) -> None:
        self._health, self._loop_seconds_max = health, loop_seconds_max
        self._pause = min(loop_seconds_max / 4, LOOK_SECONDS_MAX)
        self._deadlines: set[Deadline] = set()
        self._looks_at = 0.0
        self._here: asyncio.AbstractEventLoop | None = None  # the loop on which it runs
        self._changed = asyncio.Event()
        self._asked_at: float | None = None  # when the loop was asked to turn, while it has not
        self._said_at = -SAY_SECONDS

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch the loop that runs on this thread."""
        self._loop, self._loop_thread = loop, threading.get_ident()

    async def run(self) -> None:
        """Look for ever."""
        self._here = asyncio.get_running_loop()
        while True:
            now = monotonic()
            self._look_at_loop(now)
            self._changed.clear()
            self._looks_at = now + self._pause
            until = min([self._looks_at, *(self._look(now, one) for one in list(self._deadlines))])
            with suppress(TimeoutError):
                async with asyncio.timeout(until - monotonic()):
                    await self._changed.wait()

    def call(self, kind: str, seconds: float, function: Callable[[], Answer]) -> Answer:
        """Call a handler on this thread; raise ``TimeoutError`` if it took longer than allowed."""
        deadline = Deadline(kind, seconds)
        self._deadlines.add(deadline)
        if deadline.due_at < self._looks_at and self._here is not None:
            with suppress(RuntimeError):  # the worker has ended
                self._here.call_soon_threadsafe(self._changed.set)
        try:
            answer = deadline.call(function)
        except BaseException as error:
            if deadline.is_struck:
                raise took_too_long(seconds) from error
            raise
        finally:
            self._deadlines.discard(deadline)
        if deadline.is_struck:
            raise took_too_long(seconds)
        return answer

    def _look(self, now: float, deadline: Deadline) -> float:
        """Do what is due about a deadline; return when to look again."""
        if now < deadline.due_at:
            return deadline.due_at
        deadline.strike()
        if not deadline.is_struck:
            return now + AGAIN_SECONDS
        late_at = deadline.due_at + GRACE_SECONDS
        if now < late_at:
            return late_at
        if not deadline.said:
            deadline.said = True
            log_not_ended(deadline.kind, deadline.seconds, on_thread=True)
        return float("inf")

    def _look_at_loop(self, now: float) -> None:
        """Ask the loop to turn; if it was asked long ago and has not, say where it is."""
        if self._asked_at is None:
            self._asked_at = now
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._turned)
            return
        seconds = now - self._asked_at
        if seconds >= self._loop_seconds_max and now - self._said_at >= SAY_SECONDS:
            self._said_at = now
            log_loop_blocked(seconds, self._where())

    def _turned(self) -> None:
        self._asked_at = None
        self._health.turned()

    def _where(self) -> str:
        """Return the handler's line that holds the loop: what it has called may be a library's."""
        frame = sys._current_frames().get(self._loop_thread)
        last = frame
        while frame is not None and not frame.f_code.co_filename.startswith(_NOT_THEIRS):
            last, frame = frame, frame.f_back
        if last is None:
            return "an unknown place"
        return f"{last.f_code.co_filename}:{last.f_lineno}, in {last.f_code.co_name}"


def took_too_long(seconds: float) -> TimeoutError:
    """Return the error of an attempt that was ended at its timeout."""
    return TimeoutError(f"it took longer than {seconds:g} s")

"""The watch: a thread that looks at the clock while handlers do not."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from time import monotonic
from types import CodeType, FrameType
from typing import Protocol, TypeVar

from inturn.log import log_loop_blocked, log_loop_crowded, log_not_ended
from inturn.worker.interrupt import Deadline

GRACE_SECONDS = 1.0
"""How long a handler may take to end after it was told to, before the log says that it has not."""

SAY_SECONDS = 60.0
"""How long the log is silent about a kind that blocks the loop, after it was named."""

JOIN_SECONDS_MAX = 5.0  # for a thread that may be writing to a log that nobody reads

AGAIN_SECONDS = 0.01  # until a deadline that came before its call began is looked at again

Answer = TypeVar("Answer")


class Due(Protocol):
    """Something that is to be ended at a time, from another thread than the one it runs on."""

    kind: str
    seconds: float
    due_at: float
    is_struck: bool
    said: bool  # that it has not ended, although it was struck, or that need not be said

    def strike(self) -> None:
        """End it, if it is under way; ``is_struck`` says whether it was."""


class Watch:
    """Ends handlers at their timeout although their loop may stand still: ``def`` handlers, and
    child processes. Names those that block the loop.

    - ``kinds``: which kind of job a handler's code belongs to;
    - ``loop_seconds_max``: how long the loop may stand still before the log says so.
    """

    def __init__(self, kinds: Mapping[CodeType, str], *, loop_seconds_max: float) -> None:
        self._kinds, self._loop_seconds_max = dict(kinds), loop_seconds_max
        self._changed = threading.Condition()
        self._deadlines: set[Due] = set()
        self._looks_at = 0.0
        self._stopped = False
        self._loop: asyncio.AbstractEventLoop
        self._loop_thread = 0
        self._asked_at: float | None = None  # when the loop was asked to turn, while it has not
        self._holder: FrameType | None = None  # the handler that held the loop at the last look …
        self._held_since = 0.0  # … and since when, for the clock, it did
        self._said_at: dict[str | None, float] = {}
        self._to_say: list[Callable[[], None]] = []  # when nobody is kept waiting by it
        self._thread = threading.Thread(target=self._run, name="inturn-watch", daemon=True)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the loop that runs here, and every deadline, for the length of a block."""
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self._thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._stopped = True
                self._changed.notify()
            self._thread.join(JOIN_SECONDS_MAX)

    def call(self, kind: str, seconds: float, function: Callable[[], Answer]) -> Answer:
        """Call a handler on this thread; raise ``TimeoutError`` if it took longer than allowed."""
        deadline = Deadline(kind, seconds)
        try:
            with self.minding(deadline):
                answer = deadline.call(function)
        except BaseException as error:
            if deadline.is_struck:
                raise took_too_long(seconds) from error
            raise
        if deadline.is_struck:
            raise took_too_long(seconds)
        return answer

    @contextmanager
    def minding(self, due: Due) -> Iterator[None]:
        """Strike when it is due, if that comes while the block lasts."""
        with self._changed:
            self._deadlines.add(due)
            if due.due_at < self._looks_at:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._deadlines.discard(due)

    def _run(self) -> None:
        while not self._stopped:
            with self._changed:
                now = monotonic()
                due = [self._look(now, deadline) for deadline in self._deadlines]
                self._looks_at = min([now + self._loop_seconds_max / 4, *due])
                self._look_at_loop(now)
                if not (self._to_say or self._stopped):
                    self._changed.wait(max(0.0, self._looks_at - monotonic()))
            self._say()

    def _say(self) -> None:
        """Write what there is to say, while others come and go: the log may take its time."""
        to_say, self._to_say = self._to_say, []
        for say in to_say:
            say()

    def _look(self, now: float, deadline: Due) -> float:
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
            self._to_say.append(
                partial(log_not_ended, deadline.kind, deadline.seconds, on_thread=True)
            )
        return float("inf")

    def _look_at_loop(self, now: float) -> None:
        if self._asked_at is None:
            self._asked_at = now
            with contextlib.suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._turned)
            self._holder, self._held_since = None, 0.0
        else:
            self._look_who_holds(now, self._asked_at)

    def _turned(self) -> None:
        self._asked_at = None

    def _look_who_holds(self, now: float, asked_at: float) -> None:
        """Find the handler on the loop's stack. That costs nothing while the loop turns.

        One that is there look after look blocks the loop. If it is another each time, none of them
        does, and all together keep it from turning.
        """
        frame = at = sys._current_frames().get(self._loop_thread)
        while frame is not None and frame.f_code not in self._kinds:
            frame = frame.f_back
        if not self._held_since:
            self._holder, self._held_since = frame, asked_at
        elif frame is not self._holder:
            self._holder, self._held_since = frame, now
        alone, together = now - self._held_since, now - asked_at
        at = frame or at
        if at is None or max(alone, together / 2) < self._loop_seconds_max:
            return
        kind = None if frame is None else self._kinds[frame.f_code]
        if now - self._said_at.get(kind, -SAY_SECONDS) < SAY_SECONDS:
            return
        self._said_at[kind] = now
        where = f"{at.f_code.co_filename}:{at.f_lineno}"
        if alone >= self._loop_seconds_max:
            self._to_say.append(partial(log_loop_blocked, kind, alone, where))
        else:
            self._to_say.append(partial(log_loop_crowded, kind, together, where))


def took_too_long(seconds: float) -> TimeoutError:
    """Return the error of an attempt that was ended at its timeout."""
    return TimeoutError(f"it took longer than {seconds:g} s")

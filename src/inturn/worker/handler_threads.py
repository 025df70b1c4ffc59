"""``def`` handlers on threads: awaited on one of their own, and ended at their timeout.

A timeout is an exception that is raised in the handler's thread.

Python offers no way to stop a thread from outside, and a handler that never looks at a clock would
run for ever. The interpreter can be told to raise an exception in a thread, which happens when that
thread next runs Python code. It cannot reach into a call of C (a sleep, a read from a socket):
there it waits until the call returns.

An exception that is set and not raised yet stays with the *thread*. So a ``Deadline`` sees to it,
under a lock, that it is set only while its handler runs, and gone as soon as the handler has ended:
it never strikes the job that the thread runs next.

Until Python 3.13 the interpreter keeps one mark for all threads, that some thread has an exception
to raise, and takes it away only where one is raised. To set none in the place of one that is set
leaves the mark for ever: measured on 3.12, each call of a function then took 1.45 times as long; on
3.11, the next function that a debugger or a coverage tool traces never begins. So nothing is taken
back here: another exception is set in its place, and caught. The same takes away the mark for a
thread that is in a call of C: it makes the mark anew when it comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import threading
from collections.abc import Callable
from contextvars import copy_context
from time import monotonic
from typing import Any, TypeVar

Answer = TypeVar("Answer")

_set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_exception.argtypes = [ctypes.c_ulong, ctypes.py_object]
_set_exception.restype = ctypes.c_int


class TimeIsUp(BaseException):
    """Raised in a ``def`` handler at its timeout. No ``Exception``: few mean to catch it."""


class _Nothing(BaseException):
    """Raised here and caught here, so that the interpreter takes its mark away."""


class Deadline:
    """One call on the thread that made this, and when it must have ended."""

    __slots__ = (
        "_is_under_way", "_lock", "due_at", "is_struck", "kind", "said", "seconds", "thread",
    )  # fmt: skip

    def __init__(self, kind: str, seconds: float) -> None:
        self.kind, self.seconds = kind, seconds
        self.due_at = monotonic() + seconds
        self.thread = threading.get_ident()
        self.is_struck = False
        self.said = False  # that it has not ended, although it was struck
        self._is_under_way = False
        self._lock = threading.Lock()

    def call(self, function: Callable[[], Answer]) -> Answer:
        """Call a function, and let nothing strike this thread once it has ended."""
        # Struck at most once, it is caught at most once: in the function, or in ending it.
        try:
            try:
                with self._lock:
                    self._is_under_way = True
                return function()
            finally:
                self._end()
        except TimeIsUp:
            self._end()
            raise

    def strike(self) -> None:
        """Raise ``TimeIsUp`` in the call while it is under way; from another thread."""
        with self._lock:
            if self._is_under_way and not self.is_struck:
                self.is_struck = True
                _raise_in(self.thread, TimeIsUp)

    def _end(self) -> None:
        with self._lock:
            if self._is_under_way:
                self._is_under_way = False
                if self.is_struck:
                    _raise_in(self.thread, _Nothing)  # in the place of what may still be set


def _raise_in(thread: int, raised: type[BaseException]) -> None:
    """Have an exception raised in a thread, and leave no mark of it in others."""
    here = threading.get_ident()
    try:
        # No call of a Python function from here on: a tracer would see it, and it would not begin.
        _set_exception(thread, raised)
        while True:  # a finalizer that is run here may swallow one
            _set_exception(here, _Nothing)
    except _Nothing:
        return


async def on_own_thread(call: Callable[[], Answer]) -> Answer:
    """Make a call on a thread of its own, in a copy of this context, and await its answer.

    The thread does not keep the process from ending, which those of a pool would.
    """
    loop = asyncio.get_running_loop()
    # What was raised is a part of the answer: a future would not take all of it.
    ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = copy_context()

    def run() -> None:
        answer: tuple[Any, BaseException | None]
        try:
            answer = (context.run(call), None)
        except BaseException as error:
            answer = (None, error)
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits there
            loop.call_soon_threadsafe(end, answer)

    def end(answer: tuple[Any, BaseException | None]) -> None:
        if not ended.done():
            ended.set_result(answer)

    threading.Thread(target=run, name="inturn-surrounded", daemon=True).start()
    value, error = await ended
    if error is not None:
        raise error
    return value  # type: ignore[no-any-return]

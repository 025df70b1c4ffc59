"""An exception raised in another thread: how a ``def`` handler is ended at its timeout.

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

import ctypes
import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

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

"""SIGTERM, Ctrl-C and SIGHUP, heard on a thread of their own, whatever the main thread does."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from types import FrameType
from typing import Any, Self

HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

SAME_SECONDS = {signal.SIGTERM: 0.5, signal.SIGINT: 0.1, signal.SIGHUP: 0.5}
"""The same signal again within so long is the same one. ``timeout`` sends it to its child and to
the group that its child is in. Ctrl-C is pressed by a person, who may well be quick. SIGHUP is the
same as SIGTERM: a supervisor may send both."""


def heard_here() -> tuple[signal.Signals, ...]:
    """Return the signals to hear: not SIGHUP if that is ignored, by ``nohup``, or the app's own."""
    leaves = signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    return tuple(one for one in HEARD if leaves or one != signal.SIGHUP)


class Signalled:
    """Counts how often a worker was told to stop. ``now``: a clock that only goes forward."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._times = 0
        self._heard_at: dict[signal.Signals, float] = {}

    def count(self, number: signal.Signals) -> int:
        """Return the how-many-th signal this is; 0 if it was counted a moment ago."""
        now = self._now()
        alike = signal.SIGTERM if number == signal.SIGHUP else number
        if alike in self._heard_at and now - self._heard_at[alike] < SAME_SECONDS[number]:
            return 0
        self._heard_at[alike] = now
        self._times += 1
        return self._times


class SignalThread:
    """Calls ``hear`` with each signal; from entering to leaving, on the main thread only.

    A handler that blocks the main thread's loop would keep a signal from Python's own handlers,
    and a second one too. So the signals are read from where the interpreter notes them at once.
    """

    def __init__(self, hear: Callable[[signal.Signals], None]) -> None:
        self._hear = hear
        self._mine, self._noted = socket.socketpair()
        self._mine.setblocking(True)  # an app may have given every new socket a timeout
        self._noted.setblocking(False)
        self._before: dict[signal.Signals, Any] = {}
        self._thread = threading.Thread(target=self._listen, name="inturn-signals", daemon=True)

    def __enter__(self) -> Self:
        self._fd_before = signal.set_wakeup_fd(self._noted.fileno(), warn_on_full_buffer=False)
        for one in heard_here():
            self._before[one] = signal.signal(one, self._be_there)
        self._thread.start()
        _forks.entered = self
        return self

    def __exit__(self, *_: object) -> None:
        _forks.entered = None
        for one, before in self._before.items():
            signal.signal(one, before)
        signal.set_wakeup_fd(self._fd_before)
        self._noted.shutdown(socket.SHUT_RDWR)  # a child that was forked may have it open as well
        self._noted.close()
        self._thread.join()
        self._mine.close()

    def leave_in_child(self) -> None:
        """Let a forked child have the signals to itself: ``terminate`` ends it, and only it."""
        for one, before in self._before.items():
            if signal.getsignal(one) == self._be_there:  # and none that the job has set
                signal.signal(one, before)
        signal.set_wakeup_fd(self._fd_before)
        self._noted.close()
        self._mine.close()

    def _listen(self) -> None:
        while noted := self._mine.recv(64):
            for number in noted:
                if number in self._before:
                    self._hear(signal.Signals(number))

    def _be_there(self, number: int, _frame: FrameType | None) -> None:
        """Note a signal if the interpreter did so elsewhere, and otherwise do nothing: but only
        a signal that has a handler is noted.

        ``loop.add_signal_handler``, for whatever signal, lets all be noted where its loop looks.
        """
        ours = self._noted.fileno()
        theirs = signal.set_wakeup_fd(ours, warn_on_full_buffer=False)
        if theirs == ours:
            return
        with suppress(OSError):  # full: there is more than enough to hear
            self._noted.send(bytes([number]))
        if theirs != -1:
            with suppress(OSError, ValueError):  # it was closed meanwhile
                signal.set_wakeup_fd(theirs)


class _Forks:
    """Sees to it that a signal for a forked child is never noted as one for its parent.

    The child is born with the parent's handlers, and may be signalled before it runs a line of
    Python. So the signals wait until it has put them back.
    """

    def __init__(self) -> None:
        self.entered: SignalThread | None = None
        self._of_thread = threading.local()  # several may fork at once

    def before(self) -> None:
        if self.entered is not None:
            self._of_thread.mask = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)

    def in_parent(self) -> None:
        mask = self._of_thread.__dict__.pop("mask", None)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def in_child(self) -> None:
        entered, self.entered = self.entered, None
        try:
            if entered is not None:
                entered.leave_in_child()
        finally:
            self.in_parent()


_forks = _Forks()
if hasattr(os, "register_at_fork"):  # elsewhere nothing forks
    os.register_at_fork(
        before=_forks.before,
        after_in_parent=_forks.in_parent,
        after_in_child=_forks.in_child,
    )

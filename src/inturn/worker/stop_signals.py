"""SIGTERM, Ctrl-C and SIGHUP: counted, and acted on beside whatever the main thread is at."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from time import monotonic
from types import FrameType
from typing import Any, Self

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

SAME_SECONDS = {signal.SIGTERM: 0.5, signal.SIGINT: 0.1, signal.SIGHUP: 0.5}
"""The same signal again within so long is the same one: ``timeout`` sends it to its child and to
the child's group, and a supervisor SIGHUP with SIGTERM. A person presses Ctrl-C quickly."""


class SignalCount:
    """Counts how often a process was told to stop."""

    def __init__(self) -> None:
        self._times = 0
        self._last: dict[signal.Signals, float] = {}

    def add(self, number: signal.Signals, at: float) -> int:
        """Return the how-many-th signal this is; 0 if it was counted a moment ago."""
        alike = signal.SIGTERM if number == signal.SIGHUP else number
        if at - self._last.get(alike, -1e9) < SAME_SECONDS.get(number, 0.0):
            return 0
        self._last[alike] = at
        self._times += 1
        return self._times


class StopSignals:
    """Hears signals between entering and leaving, which is for the main thread.

    Python calls a signal's handler on the main thread in the middle of whatever that does, so the
    handler only notes the signal; a thread that iterates over ``heard`` acts on it. A child that a
    job forks has the handler, too, and is ended as if it did not.
    """

    def __init__(self, *more: signal.Signals) -> None:
        self._numbers = (*STOP_SIGNALS, *more)
        self._pid = os.getpid()
        self._noted: SimpleQueue[tuple[int, float] | None] = SimpleQueue()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for one in _not_the_apps_own(self._numbers):
            self._before[one] = signal.signal(one, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for one, before in self._before.items():
            signal.signal(one, before)
        self._noted.put(None)

    def heard(self) -> Iterator[tuple[signal.Signals, int]]:
        """Wait for signals; yield each with how many there have been."""
        count = SignalCount()
        while (noted := self._noted.get()) is not None:
            number = signal.Signals(noted[0])
            if times := count.add(number, noted[1]):
                yield number, times

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() == self._pid:
            self._noted.put((number, monotonic()))
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def _not_the_apps_own(numbers: Sequence[signal.Signals]) -> list[signal.Signals]:
    """Leave SIGHUP alone where it is ignored, as by ``nohup``, or where the app hears it."""
    leaves = signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    return [one for one in numbers if leaves or one != signal.SIGHUP]

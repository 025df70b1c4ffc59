"""SIGTERM and Ctrl-C, heard on a thread of their own, whatever the main thread is doing."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

HEARD = (signal.SIGTERM, signal.SIGINT)


class SignalThread:
    """Calls ``hear`` with each signal; from entering to leaving, on the main thread only.

    A handler that blocks the main thread's loop would keep a signal from Python's own handlers,
    and a second one too. So the signals are read from where the interpreter notes them at once.
    """

    def __init__(self, hear: Callable[[signal.Signals], None]) -> None:
        self._hear = hear
        self._mine, self._noted = socket.socketpair()
        self._noted.setblocking(False)
        self._before: dict[signal.Signals, Any] = {}
        self._thread = threading.Thread(target=self._listen, name="inturn-signals", daemon=True)

    def __enter__(self) -> Self:
        self._fd_before = signal.set_wakeup_fd(self._noted.fileno(), warn_on_full_buffer=False)
        for one in HEARD:
            self._before[one] = signal.signal(one, _be_there)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for one, before in self._before.items():
            signal.signal(one, before)
        signal.set_wakeup_fd(self._fd_before)
        self._noted.close()
        self._thread.join()
        self._mine.close()

    def _listen(self) -> None:
        while noted := self._mine.recv(64):
            for number in noted:
                if number in HEARD:
                    self._hear(signal.Signals(number))


def _be_there(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: but only a signal that has a handler is noted."""

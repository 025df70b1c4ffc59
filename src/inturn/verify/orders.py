"""Orders: what the run tells its processes, a line each, over their standard input."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from inturn.policy.raised import describe
from inturn.verify.history import Failed, Fault, History, Mended

FULL_BYTES = 64 * 1024


class SteppedClock:
    """The machine's clock, and what it is off by."""

    def __init__(self) -> None:
        self.seconds_off = 0.0

    def now(self) -> datetime:
        """Return the machine's time, wrong by so much."""
        return datetime.now(UTC) + timedelta(seconds=self.seconds_off)


class Orders:
    """Listens on a thread. When the run is gone, so is this process."""

    def __init__(self, history: History, obey: dict[str, Callable[[str], None]]) -> None:
        self._history = history
        self._obey = {"full-disk": self._fill_disk, **obey}
        self._thread = threading.Thread(target=self._listen, name="orders", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def _listen(self) -> None:
        for line in sys.stdin:
            word, _, rest = line.strip().partition(" ")
            try:
                self._obey[word](rest)
            except Exception as error:
                self._history.write(Failed(name=word, error=describe(error)))
        os._exit(0)

    def _fill_disk(self, rest: str) -> None:
        """Let no file of this process grow for a while, as on a disk that is full."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        self._history.write(Fault(name="full-disk", target=self._history.name, detail=rest))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_BYTES, hard))
        time.sleep(float(rest))
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        self._history.write(Mended(name="full-disk", target=self._history.name))


def step_clock(clock: SteppedClock, history: History) -> Callable[[str], None]:
    """Return what obeys the order to set the clock wrong, or right again."""

    def step(rest: str) -> None:
        seconds_off = float(rest)
        if seconds_off:  # nobody may find it wrong before the history says so
            history.write(Fault(name="clock-step", target=history.name, detail=f"{rest} s"))
        clock.seconds_off = seconds_off
        if not seconds_off:
            history.write(Mended(name="clock-step", target=history.name))

    return step

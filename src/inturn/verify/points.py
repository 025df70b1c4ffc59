"""Named points in the code where a process kills itself when it was told to."""

from __future__ import annotations

import os
import signal

from inturn.verify.history import Fault, History

WORKER_POINTS = (
    "before-claim",
    "after-claim",
    "before-settle",
    "after-settle",
    "before-turn",
    "after-turn",
    "before-extend",
    "after-extend",
    "before-commit",
    "in-handler",
    "after-handler",
)
PRODUCER_POINTS = ("before-enqueue", "after-enqueue", "before-cancel")


class Points:
    """Knows at which point its process is to die, if at any."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._armed: str | None = None

    def arm(self, point: str) -> None:
        """Die when this point is reached next."""
        self._armed = point

    def reach(self, point: str) -> None:
        """Say that a point is reached: nothing runs after it if it is the one."""
        if point == self._armed:
            self._history.write(Fault(name="kill-at", target=self._history.name, detail=point))
            os.kill(os.getpid(), signal.SIGKILL)

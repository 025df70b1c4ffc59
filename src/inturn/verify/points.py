"""Named points in the code where a process kills itself, or stands still, when it was told to."""

from __future__ import annotations

import os
import signal

from inturn.verify.history import Fault, History, Mended

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


STILL_POINTS = ("before-settle", "before-turn", "after-claim", "before-extend")
NOWHERE = "nowhere"


class Points:
    """Knows at which point its process is to die, and at which to stand still, if at any."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._deadly = self._still = NOWHERE

    def die_at(self, point: str) -> None:
        """Die when this point is reached next."""
        self._deadly = point

    def stop_at(self, point: str) -> None:
        """Stand still when this point is reached next, until someone sends SIGCONT."""
        self._still = point

    def reach(self, point: str) -> None:
        """Say that a point is reached."""
        target = self._history.name
        if point == self._deadly:
            self._history.write(Fault(name="kill-at", target=target, detail=point))
            os.kill(os.getpid(), signal.SIGKILL)
        if point == self._still:
            self._still = NOWHERE
            self._history.write(Fault(name="stop-worker", target=target, detail=point))
            os.kill(os.getpid(), signal.SIGSTOP)
            self._history.write(Mended(name="stop-worker", target=target))

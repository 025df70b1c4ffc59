"""A herald: tells what happened on a thread of its own, so that nobody waits who has to act.

Whoever writes to a pipe that nobody reads stands still once it is full. A worker that is told to
stop, or that has leases to keep, must not stand still with it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from inturn.log import guarded, log_listener_failure
from inturn.model.worker_events import Listener, WorkerEvent

TOLD_SECONDS_MAX = 5.0  # for who reads the last words of a process that is about to end
HURRIED_SECONDS_MAX = 1.0  # the same, when it was told to end at once
UNTOLD_MAX = 1_000  # of more, the oldest are never told

_LOOK_SECONDS = 0.25


class Herald:
    """Tells listeners of events; what one of them raises harms nothing else."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = listeners
        self._changed = threading.Condition()
        self._untold: deque[WorkerEvent] = deque(maxlen=UNTOLD_MAX)
        self._is_telling = False  # a thread is there that tells what is untold

    def tell_here(self, event: WorkerEvent) -> None:
        """Tell every listener on this thread, for as long as that takes."""
        for listener in self._listeners:
            try:
                listener(event)
            except BaseException as error:  # SystemExit, say: a listener is not who ends a worker
                guarded(log_listener_failure, listener, error)

    def tell(self, event: WorkerEvent) -> None:
        """Have an event told, after those before it; return at once."""
        with self._changed:
            self._untold.append(event)
            if self._is_telling:
                return
            self._is_telling = True
        try:
            threading.Thread(target=self._run, name="inturn-herald", daemon=True).start()
        except RuntimeError:  # no thread can be started: what is to be done is done all the same
            with self._changed:
                self._is_telling = False

    def is_told(self, seconds_max: float) -> bool:
        """Wait until all is told, though no longer than so; say whether it is.

        In small steps: a machine that stands still meanwhile takes one of them and not all.
        """
        with self._changed:
            for _ in range(int(seconds_max / _LOOK_SECONDS)):
                if self._changed.wait_for(self._is_silent, _LOOK_SECONDS):
                    break
            return self._is_silent()

    def _is_silent(self) -> bool:
        return not self._is_telling

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._untold:
                    self._is_telling = False
                    self._changed.notify_all()
                    return
                event = self._untold.popleft()
            self.tell_here(event)

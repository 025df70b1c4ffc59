"""When a worker runs a suspect: alone, and without standing still for it longer than it must."""

from __future__ import annotations

from collections.abc import Iterable

from inturn.worker.runs import Run

LOOK_SECONDS = 5.0
"""How often a worker that has work asks whether there is a suspect."""

PATIENCE_SECONDS = 5.0
"""How long a worker takes nothing new, the first time, so as to be empty for a suspect."""

SITTING_SECONDS = 5.0
"""How long a worker that is empty runs one suspect after another, before other work has a turn."""

PATIENCE_SECONDS_MAX = 3_600.0
"""No suspect is put off for ever, unless handlers that take longer than this overlap for ever."""


class Quarantine:
    """Decides when to ask for a suspect, and when to start nothing for its sake.

    A suspect is never held while something else runs: should the worker die meanwhile, a crash
    would be counted against a job that was not running. So a worker that is busy and finds one
    gives it back, takes nothing new until it is empty, and asks again. If that takes too long it
    goes on as before, for as long as it has waited, and is twice as patient the next time: one
    long job does not hold up the rest, and a suspect gets its turn in the end. If it happens to be
    empty meanwhile, it asks at once.

    Once it is empty it runs suspects in a sitting: one after another, for a few seconds, or for as
    long as it took to be empty if that was longer. Then other work, if there is any, has as long a
    turn as it had to wait.

    A queue that has a suspect is known until it was asked and has none. What is heard of another
    queue makes the worker no less patient, and several such queues do not make it wait more often.
    """

    def __init__(self, queues: Iterable[str]) -> None:
        self._look_at = dict.fromkeys(queues, 0.0)
        self._patience = PATIENCE_SECONDS
        self._until = 0.0  # when patience ends, while the worker empties itself
        self._on_until = 0.0  # until then it goes on, after it has waited in vain
        self._closed_at: float | None = None  # since when it takes nothing new
        self._alone_at: float | None = None  # when this sitting began
        self._others_until = 0.0  # until then other work has its turn, as long as there is some
        self._known: dict[str, None] = {}  # queues that have a suspect, or may; in turn
        self.waiting: str | None = None  # the queue whose suspect the worker empties itself for
        self.suspect: Run | None = None  # the one that runs

    def is_closed(self, now: float, *, is_empty: bool, has_others: bool) -> bool:
        """Whether nothing may be claimed now. ``has_others``: there may be other work."""
        if self.suspect is not None:
            return True
        self._rise(now)
        if is_empty and self.waiting is None:
            if has_others and now < self._others_until:
                return False
            self._others_until = 0.0
            self.waiting = next(iter(self._known), None)
        if self.waiting is None or is_empty:
            return False
        if now < self._until:
            return True
        self.waiting, self._on_until = None, now + self._patience
        self._closed_at = None
        self._look_at.update(dict.fromkeys(self._known, self._on_until))
        self._patience = min(2 * self._patience, PATIENCE_SECONDS_MAX)
        return False

    def next(self, now: float) -> str | None:
        """Return the queue that is to be asked before all others, if there is one.

        A queue that has nothing but suspects does not say again and again that it has work.
        """
        if self.waiting is not None:
            return self.waiting
        return next((one for one in self._known if self.asks(one, now)), None)

    def asks(self, queue: str, now: float) -> bool:
        """Whether the next claim is to be of one job, a suspect if there is one."""
        is_due = now >= max(self._look_at[queue], self._others_until)
        return queue == self.waiting or is_due

    def found(self, queue: str, now: float) -> None:
        """Note that there is a suspect, and that the worker was not empty."""
        self._known[queue] = None
        if now < self._on_until:
            self._look_at[queue] = self._on_until
        else:
            self.waiting, self._until = queue, now + self._patience
            if self._alone_at is None:
                self._closed_at = now

    def found_none(self, queue: str, now: float) -> None:
        """Note that there is no suspect."""
        self._look_at[queue] = now + LOOK_SECONDS
        self._known.pop(queue, None)
        if queue == self.waiting:
            self.waiting = None
            if self._alone_at is None:
                self._closed_at = None
        if not self._known:
            self._patience = PATIENCE_SECONDS
            self._closed_at = self._alone_at = None

    def take(self, run: Run, now: float) -> None:
        """Begin with a suspect; where there was one there may be more, when others had a turn."""
        queue = run.lease.queue
        self.suspect, self.waiting = run, None
        if self._alone_at is None:
            self._alone_at = now
            self._closed_at = now if self._closed_at is None else self._closed_at
        self._known.pop(queue, None)
        self._known[queue] = None
        self._look_at[queue] = 0.0

    def end(self, run: Run | None) -> None:
        """Note that a run was settled or lost."""
        if run is not None and run is self.suspect:
            self.suspect = None

    def _rise(self, now: float) -> None:
        """End a sitting that has been long enough."""
        if self._alone_at is None or self._closed_at is None:
            return
        emptied, sat = self._alone_at - self._closed_at, now - self._alone_at
        if sat >= max(emptied, SITTING_SECONDS):
            self._others_until = now + emptied + sat
            self._closed_at = self._alone_at = self.waiting = None

    def look_soon(self) -> None:
        """There may be suspects in every queue."""
        self._look_at = dict.fromkeys(self._look_at, 0.0)

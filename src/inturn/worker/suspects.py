"""When a worker runs a suspect: a job that was in hand when a worker died runs alone."""

from __future__ import annotations

from collections.abc import Iterable

from inturn.worker.runs import Run

ASK_SECONDS = 5.0
"""How often each queue is asked for a suspect, while it has none."""

EMPTY_SECONDS = 5.0
"""How long a busy worker claims nothing, the first time, so as to be empty for one it has found."""

TURN_SECONDS = 5.0
"""How long suspects run, one after another, before other work has as long a turn."""


class Suspects:
    """Decides which queue to ask for suspects, and when nothing may be claimed for the sake of one.

    A suspect is never held while something else runs: should the worker die meanwhile, a crash
    would be counted against a job that was not running. So a busy worker gives back the one it
    finds, and claims nothing until it is empty, or a few seconds are over. Then other work goes on
    for as long, and the next time it claims nothing for twice as long: however long jobs take, the
    suspect runs in the end. Suspects that run one after another leave other work half of the time,
    as long as there is some.
    """

    def __init__(self, queues: Iterable[str]) -> None:
        self._ask_at = dict.fromkeys(queues, 0.0)
        self._found: dict[str, None] = {}  # queues that have one, as far as is known; in turn
        self._empty_seconds = EMPTY_SECONDS
        self._empties_until: float | None = None  # it claims nothing, unless it is empty before
        self._turn_at: float | None = None  # when the turn of the suspects began, while it lasts
        self._others_until = 0.0
        self.running: Run | None = None

    def serve(self, queues: Iterable[str]) -> None:
        """Ask these queues from now on."""
        self._ask_at = {queue: self._ask_at.get(queue, 0.0) for queue in queues}
        self._found = {queue: None for queue in self._found if queue in self._ask_at}

    def blocks_claims(self, now: float, *, is_empty: bool, has_others: bool) -> bool:
        """Decide whether nothing may be claimed now. ``has_others``: there may be other work."""
        if self.running is not None:
            return True
        if self._turn_at is not None and now - self._turn_at >= TURN_SECONDS:
            self._others_until = now + (now - self._turn_at)
            self._turn_at = None
        if is_empty and not has_others:
            self._others_until = 0.0
        if not self._found or is_empty or self._empties_until is None:
            return False
        if now < self._empties_until:
            return True
        self._empties_until = None  # from now on it goes on for as long
        self._ask_at = dict.fromkeys(self._ask_at, now + self._empty_seconds)
        self._empty_seconds *= 2
        return False

    def queue(self, now: float, *, is_empty: bool) -> str | None:
        """Return the queue that is to be asked before all others, if there is one.

        A queue that has nothing but suspects does not say again and again that it has work.
        """
        return next((one for one in self._found if self.asks(one, now, is_empty=is_empty)), None)

    def asks(self, queue: str, now: float, *, is_empty: bool) -> bool:
        """Whether the next claim from a queue is to be of one job, a suspect if there is one."""
        if now < self._others_until:
            return False
        return now >= self._ask_at[queue] or (is_empty and queue in self._found)

    def found(self, queue: str, now: float) -> float:
        """Note that there is a suspect, and that the worker was not empty; return for how many
        seconds nothing is claimed now, at most.
        """
        self._found[queue] = None
        self._empties_until = now + self._empty_seconds
        return self._empty_seconds

    def found_none(self, queue: str, now: float) -> None:
        """Note that there is no suspect."""
        self._ask_at[queue] = now + ASK_SECONDS
        self._found.pop(queue, None)
        if not self._found:
            self._turn_at, self._empty_seconds = None, EMPTY_SECONDS

    def take(self, run: Run, now: float) -> None:
        """Begin with a suspect. Where there was one there may be more."""
        queue = run.lease.queue
        self.running = run
        if self._turn_at is None:
            self._turn_at = now
        self._empties_until, self._empty_seconds = None, EMPTY_SECONDS
        self._found.pop(queue, None)  # the other queues first
        self._found[queue] = None
        self._ask_at[queue] = 0.0

    def ended(self, run: Run) -> None:
        """Note that a run was settled or lost."""
        if run is self.running:
            self.running = None

    def ask_soon(self) -> None:
        """There may be suspects in every queue."""
        self._ask_at = dict.fromkeys(self._ask_at, 0.0)

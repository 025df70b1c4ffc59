"""When a worker runs a suspect: a job that was in hand when a worker died runs alone."""

from __future__ import annotations

from collections.abc import Iterable

from inturn.worker.runs import Run

ASK_SECONDS = 5.0
"""How often each queue is asked for a suspect, while it has none."""

EMPTY_SECONDS = 5.0
"""How long a busy worker claims nothing, the first time, so as to be empty for one it has found."""

EMPTY_SECONDS_MAX = 3_600.0
"""No suspect is put off for ever, unless handlers that take longer than this overlap for ever."""

TURN_SECONDS = 5.0
"""How long suspects run, one after another, before other work has as long a turn."""


class Suspects:
    """Decides which queue to ask for suspects, and when nothing may be claimed for the sake of one.

    A suspect is never held while something else runs: should the worker die meanwhile, a crash
    would be counted against a job that was not running. So a busy worker gives back the one it
    finds, and claims nothing until it is empty. If that takes too long it goes on for as long as it
    has waited, and waits twice as long the next time: one long job holds up neither the rest nor,
    in the end, the suspect. Of all time other work has at least half, as long as there is some.
    """

    def __init__(self, queues: Iterable[str]) -> None:
        self._ask_at = dict.fromkeys(queues, 0.0)
        self._found: dict[str, None] = {}  # queues that have one, as far as is known; in turn
        self._empty_seconds = EMPTY_SECONDS
        self._closed_at = 0.0  # since when it claims nothing else …
        self._empties_until = 0.0  # … until then, unless it is empty before …
        self._goes_on_until = 0.0  # … and goes on until then, if it is not
        self._turn_at: float | None = None  # when the turn of the suspects began, while it lasts
        self._others_until = 0.0
        self.running: Run | None = None

    def serve(self, queues: Iterable[str]) -> None:
        """Ask these queues from now on."""
        self._ask_at = {queue: self._ask_at.get(queue, 0.0) for queue in queues}
        self._found = {queue: None for queue in self._found if queue in self._ask_at}

    def blocks_claims(self, now: float, *, is_empty: bool, has_others: bool) -> bool:
        """Whether nothing may be claimed now. ``has_others``: there may be other work."""
        if self.running is not None:
            return True
        if self._turn_at is not None and now - self._turn_at >= max(
            TURN_SECONDS, self._turn_at - self._closed_at
        ):
            self._others_until = now + (now - self._closed_at)
            self._turn_at = None
        if is_empty and not has_others:
            self._others_until = 0.0
        return bool(self._found) and not is_empty and now < self._empties_until

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

    def found(self, queue: str, now: float) -> None:
        """Note that there is a suspect, and that the worker was not empty."""
        self._found[queue] = None
        if now >= self._goes_on_until:
            self._closed_at, self._empties_until = now, now + self._empty_seconds
            self._goes_on_until = self._empties_until + self._empty_seconds
            self._empty_seconds = min(2 * self._empty_seconds, EMPTY_SECONDS_MAX)
        self._ask_at[queue] = self._goes_on_until

    def found_none(self, queue: str, now: float) -> None:
        """Note that there is no suspect."""
        self._ask_at[queue] = now + ASK_SECONDS
        self._found.pop(queue, None)
        if not self._found:
            self._turn_at = None
            self._begin_anew()

    def take(self, run: Run, now: float) -> None:
        """Begin with a suspect. Where there was one there may be more."""
        queue = run.lease.queue
        self.running = run
        if self._turn_at is None:
            self._turn_at = now
            self._closed_at = self._closed_at if now < self._empties_until else now
        self._begin_anew()
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

    def _begin_anew(self) -> None:
        """The next time that it is to be empty for one, be as patient as at first."""
        self._empty_seconds, self._empties_until, self._goes_on_until = EMPTY_SECONDS, 0.0, 0.0

"""How much waits to be told to the store, so that large results do not fill the memory."""

from __future__ import annotations

from threading import Lock

from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Retry

CHARS_UNTOLD_MAX = 32 * 1024 * 1024
"""While results and errors of so much wait to be told, nothing more is claimed or started."""


class Volume:
    """Counts the characters of results and errors that the store has not heard of."""

    def __init__(self) -> None:
        self.chars = 0
        self._lock = Lock()

    @property
    def is_full(self) -> bool:
        """Whether the store should hear of some of it before there is more. From any thread."""
        return self.chars >= CHARS_UNTOLD_MAX

    def add(self, chars: int) -> None:
        """Count more, or less. From any thread."""
        if chars:
            with self._lock:
                self.chars += chars


def chars_of(outcome: Outcome) -> int:
    """Return how much there is to say of what became of a job."""
    verdict = outcome.verdict
    if type(verdict) is Done:
        return 0 if verdict.result is None else len(verdict.result)
    if type(verdict) is Retry or type(verdict) is Bury:
        return len(verdict.error) + len(verdict.traceback or "")
    return 0


def chars_in(settlement: Settlement) -> int:
    """Return how much there is to say of the jobs of a settlement."""
    return sum(map(chars_of, settlement.outcomes))

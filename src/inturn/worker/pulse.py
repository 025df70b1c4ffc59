"""A worker's pulse: whether its loop turns and its store answers, and for how long they did not."""

from __future__ import annotations

import threading

import msgspec

TURN_SECONDS = 0.5  # how often a loop that is not blocked says so
PATIENCE_SECONDS_MIN = 2.0
PATIENCE_SECONDS_MAX = 60.0


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a worker works; if not, why."""

    healthy: bool
    why: str | None = None


class Pulse:
    """Hears of turns, beats and troubles, from any thread, and judges by them.

    It bears with silence for as long as a lease lasts: after that a worker's jobs are lost anyway.
    """

    def __init__(self, lease_seconds: float) -> None:
        self.patience_seconds = min(max(lease_seconds, PATIENCE_SECONDS_MIN), PATIENCE_SECONDS_MAX)
        self._lock = threading.Lock()
        self._turned_at: float | None = None
        self._beaten_at: float | None = None
        self._troubles: set[str] = set()  # who could not reach the store
        self._answered_at: float | None = None
        self._troubled_at = 0.0  # since when the store was silent, while there are any

    @property
    def is_troubled(self) -> bool:
        """Whether someone could not reach the store, and nobody has since."""
        return bool(self._troubles)

    def turn(self, now: float) -> None:
        """Hear that the loop turns."""
        self._turned_at = now

    def beat(self, now: float) -> None:
        """Hear that the store took a beat of the heart."""
        self._beaten_at = now

    def trouble(self, who: str, now: float) -> bool:
        """Hear that someone could not reach the store; say whether nobody had said so before.

        It is heard late, for a silence has to last before it is one: it began at the last answer.
        """
        with self._lock:
            is_first = not self._troubles
            if is_first:
                self._troubled_at = now if self._answered_at is None else self._answered_at
            self._troubles.add(who)
            return is_first

    def answer(self, who: str, now: float) -> float | None:
        """Hear that the store answered someone; when that ends a trouble, say how long it was."""
        self._answered_at = now
        if not self._troubles:
            return None
        with self._lock:
            if who not in self._troubles:
                return None
            self._troubles.remove(who)
            return None if self._troubles else now - self._troubled_at

    def health(self, now: float) -> Health:
        """Judge."""
        with self._lock:
            troubled = now - self._troubled_at if self._troubles else 0.0
        if self._turned_at is None or self._beaten_at is None:
            return Health(healthy=False, why="it has not begun to work yet")
        for silence, said in (
            (now - self._turned_at, "its loop has not turned"),
            (now - self._beaten_at, "the store has not taken a heartbeat"),
            (troubled, "the store has not done its work"),
        ):
            if silence > self.patience_seconds:
                return Health(healthy=False, why=f"{said} for {silence:.0f} s")
        return Health(healthy=True)

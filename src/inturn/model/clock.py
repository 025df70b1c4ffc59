"""Time as something that is handed in: the machine's clock, or one that a test moves by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Tells the time. The only door through which time enters the core."""

    def now(self) -> datetime:
        """Return the current time, with its zone."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the machine's time in UTC."""
        return datetime.now(UTC)


class ManualClock:
    """A clock that stands still until it is moved, for tests and the simulation."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time it was last moved to."""
        return self._now

    def advance(self, seconds: float) -> datetime:
        """Move forward (or, with a negative number, back) and return the new time."""
        self._now += timedelta(seconds=seconds)
        return self._now

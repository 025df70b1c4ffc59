"""A clock for tests, moved by seconds or by words."""

from __future__ import annotations

from datetime import datetime, timedelta

from inturn.model.clock import ManualClock
from inturn.model.duration import parse_duration
from inturn.model.errors import BadInput


class HandClock(ManualClock):
    """Stands still until it is moved: ``advance(30)``, ``advance("5m")``, ``move_to(time)``.

    It moves forward only: a lease that ran out stays run out.
    """

    def advance(self, by: float | str) -> datetime:
        """Let time pass; return the new time."""
        return self.move_to(self.later(by))

    def move_to(self, time: datetime) -> datetime:
        """Let time pass until a moment; return it."""
        if time < self.now():
            raise BadInput(f"{time} is before {self.now()}: this clock does not go back.")
        return super().advance((time - self.now()).total_seconds())

    def later(self, by: float | str) -> datetime:
        """Return what time it will be when so much has passed."""
        return self.now() + timedelta(seconds=parse_duration(by) if isinstance(by, str) else by)

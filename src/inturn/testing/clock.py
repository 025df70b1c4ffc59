"""A clock for tests, moved by seconds or by words."""

from __future__ import annotations

from datetime import datetime

from inturn.model.clock import ManualClock
from inturn.model.duration import parse_duration
from inturn.model.errors import BadInput


class HandClock(ManualClock):
    """Stands still until it is moved: ``advance(30)``, ``advance("5m")``, ``move_to(time)``."""

    def advance(self, by: float | str) -> datetime:
        """Let time pass; return the new time."""
        return super().advance(parse_duration(by) if isinstance(by, str) else by)

    def move_to(self, time: datetime) -> datetime:
        """Let time pass until a moment; return it."""
        if time.tzinfo is None:
            raise BadInput(f"{time} has no zone, so it could be any of a day's moments. Give one.")
        return super().advance((time - self.now()).total_seconds())

"""A clock for tests, moved by seconds or by words."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import inf

from inturn.model.admissible import check_number, shown
from inturn.model.clock import ManualClock
from inturn.model.duration import parse_duration
from inturn.model.errors import BadInput

_ONWARD = "Time does not go back: start earlier, with private(app, clock=HandClock(start))."


class HandClock(ManualClock):
    """Stands still until it is moved: ``advance(30)``, ``advance("5m")``, ``move_to(time)``.

    It moves forward only, as time does: a lease that ran out stays run out.
    """

    def advance(self, by: float | str) -> datetime:
        """Let time pass; return the new time."""
        return self.move_to(self.later(by))

    def move_to(self, time: datetime) -> datetime:
        """Let time pass until a moment; return it."""
        if not isinstance(time, datetime):
            raise BadInput(f"{shown(time)} is no time. Give a datetime with its zone.")
        if time.tzinfo is None:
            raise BadInput(f"{time} has no zone, so it could be any of a day's moments. Give one.")
        if time < self.now():
            raise BadInput(f"{time} is before {self.now()}, to which the clock has come. {_ONWARD}")
        return super().advance((time - self.now()).total_seconds())

    def later(self, by: float | str) -> datetime:
        """Return what time it is when so much has passed, and let none pass."""
        seconds = parse_duration(by) if isinstance(by, str) else by
        check_number("the time to pass", seconds, -inf, inf)
        if seconds < 0:
            raise BadInput(f"the time to pass is {shown(seconds)} s. {_ONWARD}")
        try:
            return self.now() + timedelta(seconds=seconds)
        except OverflowError as error:
            raise BadInput(
                f"{shown(seconds)} s from {self.now()} no calendar has a day any more. Let less "
                f"time pass."
            ) from error

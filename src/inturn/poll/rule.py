"""When a schedule fires: its rule, and what became due since somebody looked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from inturn.model.admissible import check_number, check_text, shown
from inturn.model.errors import BadInput

if TYPE_CHECKING:
    from cronsim import CronSim

EVERY_SECONDS_MIN = 1.0
EVERY_SECONDS_MAX = 366 * 86_400.0
CATCH_UP_MAX = 1_000
"""How many missed firings one look makes up for; the next look goes on."""


class CatchUp(StrEnum):
    """What becomes of firings that were missed while no worker ran.

    One is missed when the next is due as well; one that is late by less than that fires.
    """

    ONCE = "once"  # one job for all of them
    SKIP = "skip"  # none: it goes on with the next
    ALL = "all"  # a job for each


class Every(msgspec.Struct, frozen=True, tag="every"):
    """At intervals. They are counted from one firing to the next, so a late one delays none."""

    seconds: float

    def __post_init__(self) -> None:
        """Refuse an interval that is none."""
        check_number("every, in seconds,", self.seconds, EVERY_SECONDS_MIN, EVERY_SECONDS_MAX)

    def next_after(self, at: datetime) -> datetime:
        """Return the first time after another that is one."""
        return at + timedelta(seconds=self.seconds)

    def last_until(self, at: datetime, now: datetime) -> datetime:
        """Return the last time that is not after ``now``, of those from ``at`` on."""
        return at + (now - at) // timedelta(seconds=self.seconds) * timedelta(seconds=self.seconds)


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """At the times of a cron expression, in a time zone.

    Where summer time skips an hour, what falls into it fires right after; where an hour comes
    twice, what names that hour fires once, and ``*/30 * * * *`` in both.
    """

    expression: str
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        """Refuse what is no expression, or never comes."""
        check_text("cron expression", self.expression)
        try:
            zone = ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError, TypeError, AttributeError):
            raise BadInput(
                f"there is no time zone {shown(self.timezone)}. Write one as 'UTC' or "
                f"'Europe/Berlin'."
            ) from None
        if next(self._times(datetime(2026, 1, 1, tzinfo=zone)), None) is None:
            raise self._refused("no such time ever comes")

    def next_after(self, at: datetime) -> datetime:
        """Return the first time after another that is one."""
        return next(self._times(at.astimezone(ZoneInfo(self.timezone)))).astimezone(UTC)

    def last_until(self, at: datetime, now: datetime) -> datetime:
        """Return the last time that is not after ``now``, of those from ``at`` on."""
        after_now = (now + timedelta(minutes=1)).astimezone(ZoneInfo(self.timezone))
        for time in self._times(after_now, reverse=True):
            if time <= now:
                return max(at, time.astimezone(UTC))
        return at

    def _times(self, after: datetime, *, reverse: bool = False) -> CronSim:
        try:
            from cronsim import CronSim, CronSimError
        except ImportError:  # a worker without cron expressions needs none
            raise BadInput(
                "a cron expression needs inturn's extra `poll`. In a clone: pip install '.[poll]'"
            ) from None
        try:
            return CronSim(self.expression, after, reverse=reverse)
        except CronSimError as error:
            raise self._refused(str(error)) from None

    def _refused(self, why: str) -> BadInput:
        return BadInput(
            f"{self.expression!r} is no cron expression: {why}. Write minute, hour, day, month and "
            f"weekday, as in '*/5 * * * *'."
        )


Rule = Every | Cron


class Due(msgspec.Struct, frozen=True):
    """The times for which a schedule is to fire now, and when to look again."""

    times: tuple[datetime, ...]
    next_at: datetime


def due(rule: Rule, next_at: datetime, now: datetime, catch_up: CatchUp) -> Due:
    """Return what became due by ``now`` of a schedule whose next time was ``next_at``."""
    if next_at > now:
        return Due((), next_at)
    if catch_up is CatchUp.ALL:
        times = [next_at]
        while (after := rule.next_after(times[-1])) <= now and len(times) < CATCH_UP_MAX:
            times.append(after)
        return Due(tuple(times), after)
    after = rule.next_after(next_at)
    if after > now:
        return Due((next_at,), after)  # none was missed
    last = rule.last_until(next_at, now)
    return Due((last,) if catch_up is CatchUp.ONCE else (), rule.next_after(last))

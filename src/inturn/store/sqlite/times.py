"""Times as SQLite keeps them: whole microseconds since 1970, UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

Micros = int
SECOND: Micros = 1_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(time: datetime) -> Micros:
    """Return a time as it is kept."""
    return (time - _EPOCH) // _MICROSECOND


def micros_of_seconds(seconds: float) -> Micros:
    """Return a span of seconds as it is kept."""
    return round(seconds * SECOND)


def time_of(kept: Micros) -> datetime:
    """Return a kept time as a time with its zone."""
    return _EPOCH + timedelta(microseconds=kept)


def time_or_none(kept: Micros | None) -> datetime | None:
    """Return a kept time as a time, or nothing for nothing."""
    return None if kept is None else time_of(kept)

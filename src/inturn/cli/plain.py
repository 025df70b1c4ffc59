"""Words for people: ages, times and text from a store, safe to print on a terminal."""

from __future__ import annotations

from datetime import UTC, datetime

_STEPS = (("d", 86_400), ("h", 3_600), ("m", 60))


def plain(text: str) -> str:
    """Return text with every control character but the end of a line spelled out.

    Keys, errors and payloads come from anywhere, and an escape sequence in one could move the
    cursor, retitle the window, or hide what stands beside it.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else _spelled(one) for one in text)


def name_text(name: str | None) -> str:
    """Return a name exactly, with every control character spelled out; nothing for None."""
    return plain(name or "").replace("\n", "\\n")


def one_line(text: str | None) -> str:
    """Return prose on one line, its blanks made even; nothing for None."""
    return plain(" ".join((text or "").split()))


def time_text(time: datetime | None) -> str:
    """Return a time in ISO 8601, in UTC, to the millisecond."""
    if time is None:
        return ""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age(since: datetime | None, now: datetime) -> str:
    """Return how long ago a time was, in its largest unit: 12s, 3m, 2h, 5d."""
    return "" if since is None else duration((now - since).total_seconds())


def duration(seconds: float) -> str:
    """Return a length of time in its largest unit."""
    for unit, length in _STEPS:
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    if seconds >= 1 or seconds <= 0:
        return f"{max(int(seconds), 0)}s"
    return f"{seconds * 1000:.3g}ms"


def seconds_text(seconds: float | None) -> str:
    """Return a setting exactly, to the microsecond, as it would be typed: 500ms, 1m30s, 1d."""
    if seconds is None:
        return ""
    seconds = round(seconds, 6)
    if 0 < seconds < 1:
        return f"{_decimal(seconds * 1000)}ms"
    said, rest = "", seconds
    for unit, length in _STEPS:
        number, rest = divmod(rest, length)
        said += f"{number:.0f}{unit}" if number else ""
    left = _decimal(rest)
    return f"{said}{left}s" if left != "0" or not said else said


def count(number: int, noun: str) -> str:
    """Return a number with its noun: 1 job, 2 jobs."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _decimal(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode()

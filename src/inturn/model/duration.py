"""Lengths of time as people write them: ``100ms``, ``20s``, ``1m30s``, ``7d``."""

from __future__ import annotations

import re

from inturn.model.errors import BadInput

UNIT_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,  # the micro sign …
    "μs": 1e-6,  # … and the Greek letter, which look alike
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3_600.0,
    "d": 86_400.0,
}

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h|d)", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds that a text such as ``1m30s`` stands for. Only 0 needs no unit."""
    given = text.strip()
    if given == "0":
        return 0.0
    seconds, at = 0.0, 0
    while part := _PART.match(given, at):
        seconds += float(part[1]) * UNIT_SECONDS[part[2]]
        at = part.end()
    if not given or at < len(given):
        raise BadInput(_complaint(given))
    return seconds


def _complaint(given: str) -> str:
    if _NUMBER.fullmatch(given):
        return f"{given!r} has no unit; write {given}s for seconds or {given}ms for milliseconds."
    return f"{given!r} is no length of time; write for example 100ms, 20s, 1m30s or 7d."

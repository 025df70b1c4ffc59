"""Moments that JSON cannot say: with an offset from UTC that is not of whole minutes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from typing import Any

import msgspec

_MINUTE = timedelta(minutes=1)
_MOMENTS = (datetime, time)
_has_zone = re.compile(r':\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"').search


def shifted_moment(value: Any, written: str) -> datetime | time | None:
    """Return a moment inside a value that is another in the JSON that was written of it.

    As clocks showed them before there were time zones: Amsterdam was 19 minutes and 32 seconds
    ahead, and JSON has no seconds there. Only where JSON has a moment with a zone is it looked for.
    """
    if not _has_zone(written):
        return None
    plain = msgspec.to_builtins(value, builtin_types=_MOMENTS, enc_hook=_unknown)
    return next((one for one in _moments(plain) if (one.utcoffset() or _MINUTE) % _MINUTE), None)


def _moments(value: Any) -> Iterator[datetime | time]:
    """Yield the moments inside lists and dicts. No recursion: payloads may be large."""
    left = [value]
    while left:
        one = left.pop()
        if type(one) is dict:
            left += one.values()
            left += (key for key in one if type(key) is not str)
        elif type(one) in (list, tuple):
            left += one
        elif type(one) in _MOMENTS:
            yield one


def _unknown(_: Any) -> None:
    """Pass over what msgspec does not know: models of pydantic are compared as they are written."""

"""The limits of a queue, when to come back to a full one, and what code says of its settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from inturn.model import bounds
from inturn.model.lane import QueueSettings


def limit_reached(settings: QueueSettings, *, running: int, starts: int) -> str | None:
    """Say which limit of a queue lets nothing more start now, or nothing."""
    if settings.running_max is not None and running >= settings.running_max:
        return f"{running:,} of its jobs run, and at most {settings.running_max:,} may"
    if settings.rate is not None and starts >= settings.rate:
        return (
            f"{starts:,} of its jobs started within {settings.rate_seconds:g} s, and at most "
            f"{settings.rate:,} may"
        )
    return None


def rate_window_seconds(rate_seconds: float) -> float:
    """Return how long a start counts: a little longer than the time of its rate.

    A handler starts a moment after its claim. Without this the late ones of a burst and all of the
    next would share a window, as an API that counts requests sees it.
    """
    return rate_seconds + min(0.25, 0.04 * rate_seconds)


def changed_settings(written: Mapping[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings to write: what is declared otherwise than it was last written.

    What a person has set since then holds, and so does what is declared no more.
    """
    changed = {
        name: value
        for name, value in declared.items()
        if name not in written or written[name] != value
    }
    if changed.keys() & {"rate", "rate_seconds"}:  # two halves of one number
        changed |= {name: declared[name] for name in ("rate", "rate_seconds")}
    return changed


def with_changes(settings: QueueSettings, changes: Mapping[str, Any]) -> QueueSettings:
    """Return a queue's settings with some of them changed."""
    return msgspec.convert(msgspec.structs.asdict(settings) | dict(changes), QueueSettings)


def come_back_seconds(excess: int, *, settled: int, within_seconds: float) -> int:
    """Return in how many seconds a queue that settled so many lately should have room for more.

    ``excess`` is by how many jobs its bound would have been passed.
    """
    if settled <= 0:
        return bounds.COME_BACK_SECONDS_DEFAULT
    seconds = math.ceil(excess * max(within_seconds, 1.0) / settled)
    return min(max(seconds, bounds.COME_BACK_SECONDS_MIN), bounds.COME_BACK_SECONDS_MAX)

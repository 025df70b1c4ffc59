"""When to come back to a queue that is full: when what is too much should have drained."""

from __future__ import annotations

import math

from inturn.model import bounds


def come_back_seconds(excess: int, *, settled: int, within_seconds: float) -> int:
    """Return in how many seconds a queue that settled so many lately should have room for more.

    ``excess`` is by how many jobs its bound would have been passed.
    """
    if settled <= 0:
        return bounds.COME_BACK_SECONDS_DEFAULT
    seconds = math.ceil(excess * max(within_seconds, 1.0) / settled)
    return min(max(seconds, bounds.COME_BACK_SECONDS_MIN), bounds.COME_BACK_SECONDS_MAX)

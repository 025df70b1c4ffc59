"""The clock by which a worker knows whether its leases are still its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial


def sleepless_clock() -> Callable[[], float]:
    """Return one that goes on while the machine sleeps, as the store's does, if there is one.

    ``time.monotonic`` stands still meanwhile on Linux and macOS: after a laptop's lid was shut for
    a night it would call a lease of 30 seconds good.
    """
    if sys.platform == "linux":
        clock = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    elif sys.platform == "darwin":
        clock = partial(time.clock_gettime, time.CLOCK_MONOTONIC)
    else:
        return time.monotonic
    try:
        clock()
    except OSError:  # a kernel, or what stands in for one, without it
        return time.monotonic
    return clock


lease_now = sleepless_clock()

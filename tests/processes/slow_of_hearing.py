"""The app of ``jobs`` in a worker that takes the same signal for one, however late it comes again.

For tests of that, on a machine that may stand still for a while.
"""

from __future__ import annotations

from inturn.worker import signals
from tests.processes.jobs import app

__all__ = ["app"]

signals.SAME_SECONDS.update(dict.fromkeys(signals.HEARD, 1_000.0))

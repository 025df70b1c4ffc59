"""How a worker is told to stop, and what it says of jobs that it leaves running."""

from __future__ import annotations

from enum import IntEnum

from inturn.policy.verdict import Retry


class Stop(IntEnum):
    """How urgently a worker is to stop. It only ever becomes more urgent."""

    RUN = 0
    DRAIN = 1  # when nothing is left that may be run now
    FINISH = 2  # take nothing more, release what has not started, finish what has
    NOW = 3  # wait for nothing, and give back what runs


STOP_NOW_SECONDS = 1.0
"""How long a worker that stops now waits: for the step it is at, for handlers that clean up, and
for the store to take its last settlements; for each so long."""

_GONE_SECONDS = 1.0
STILL_RUNS = Retry(
    delay_seconds=_GONE_SECONDS,
    error="its worker was told to stop at once while it ran",
    counted=False,
)
"""The verdict on a job whose handler could not be stopped: it may run elsewhere, but only when this
process should be gone, so that two of a key do not run at once."""

"""How much a worker claims: as much as it can start soon, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HORIZON_SECONDS = 0.05
"""What is claimed ahead should be started within this time: long enough to cover a round trip to
the store, short enough that nobody else could have run it sooner."""

CHARS_AHEAD_MAX = 8 * 1024 * 1024
"""Payloads of more are not held for later, so that large jobs do not fill the memory."""

_WEIGHT = 0.2  # of the newest measurement in the running average


@dataclass(slots=True)
class Prefetch:
    """Decides by how quickly jobs have ended lately.

    Slow jobs are claimed one for each free slot, and so are large ones. Quick ones are claimed
    ahead, in batches, so that the slots are busy while the next batch is on its way.
    """

    slots: int
    jobs_max: int
    ended_per_second: float = 0.0
    chars_each: float = 0.0

    def claimed(self, payloads: Sequence[str]) -> None:
        """Note how large the jobs of a claim are: large ones at once, small ones by and by."""
        if payloads:
            measured = sum(map(len, payloads)) / len(payloads)
            drifted = self.chars_each + _WEIGHT * (measured - self.chars_each)
            self.chars_each = max(measured, drifted)

    def ended(self, jobs: int, seconds: float) -> None:
        """Note that so many jobs ended in so long a time, while there was work."""
        if seconds > 0:
            measured = jobs / seconds
            self.ended_per_second += _WEIGHT * (measured - self.ended_per_second)

    def slowed(self) -> None:
        """Note that what was claimed ahead was not started soon: claim for free slots only."""
        self.ended_per_second = 0.0

    def wanted(self, in_hand: int, busy: int) -> int:
        """Return how many jobs to claim now.

        ``in_hand`` jobs were claimed and have not ended; they belong to ``busy`` lanes, each of
        which has its jobs run one after the other.
        """
        ahead = int(self.ended_per_second * HORIZON_SECONDS)
        free = max(0, self.slots - busy)
        if self.chars_each:
            ahead = min(ahead, int(CHARS_AHEAD_MAX / self.chars_each))
        wanted = max(free, self.slots + ahead - in_hand if ahead else free)
        return max(0, min(wanted, self.jobs_max - in_hand))

"""How much a worker claims: as much as it can start soon, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

HORIZON_SECONDS = 0.05
"""What is claimed ahead should be started within this time: long enough to cover a round trip to
the store, short enough that nobody else could have run it sooner."""

TURN_SECONDS_MAX = 4 * HORIZON_SECONDS
"""A claim whose jobs keep the loop busy for longer, before it turns, was too large. One that takes
longer than the horizon is large enough: between the two, a machine that is busy with other things
does not make a worker claim less."""

CHARS_AHEAD_MAX = 8 * 1024 * 1024
"""Payloads of more are neither claimed at once nor held for later, as far as can be foreseen."""

CHARS_HELD_MAX = 64 * 1024 * 1024
"""Payloads of more are not held at all, so that large jobs do not fill the memory."""

PACE_SECONDS = 5 * HORIZON_SECONDS
"""How quickly jobs end is averaged over about so long: slots whose jobs end together end a burst
at a time, and what lies between two bursts counts as much as they do."""

_WEIGHT = 0.2  # of the newest payloads in the running average


@dataclass(slots=True)
class Prefetch:
    """Decides by how quickly jobs have started and ended lately, and by how large they were.

    The first claim is of one job, and each may be twice as large as the last while jobs start at
    once: those that compute on the loop are claimed one by one, and others find no slot taken by
    jobs that wait for a turn. Slow jobs are claimed one for each free slot, and so are large ones.
    Quick ones are claimed ahead, in batches, so that the slots are busy while the next batch is on
    its way.
    """

    slots: int
    jobs_max: int
    ended_per_second: float = 0.0
    chars_each: float = 0.0
    returned_chars_each: float = 0.0
    window: int = 1  # how many may be claimed before the loop has turned
    _coming: int = 0  # were claimed, and the loop has not turned since

    def claimed(self, payloads: Sequence[str]) -> None:
        """Note how large the jobs of a claim are: large ones at once, small ones by and by."""
        self._coming += len(payloads)
        if payloads:
            measured = sum(map(len, payloads)) / len(payloads)
            self.chars_each = _followed(self.chars_each, measured)

    def turned(self, jobs: int, seconds: float) -> None:
        """Note how long it took from the claim of so many jobs until the loop had turned.

        Those that run on the loop have come to their first ``await`` by then, or to their end.
        """
        self._coming -= jobs
        if seconds > TURN_SECONDS_MAX:
            self.window = max(1, int(jobs * TURN_SECONDS_MAX / seconds))
        elif seconds <= HORIZON_SECONDS and 2 * jobs >= self.window:
            self.window = min(2 * self.window, self.jobs_max)

    def ended(self, jobs: int, seconds: float) -> None:
        """Note that so many jobs ended in so long a time, while there was work."""
        if seconds > 0:
            weight = 1 - exp(-seconds / PACE_SECONDS)
            self.ended_per_second += weight * (jobs / seconds - self.ended_per_second)

    def returned(self, jobs: int, chars: int) -> None:
        """Note how much there was to say of so many jobs that were run: results, mostly."""
        if jobs:
            self.returned_chars_each = _followed(self.returned_chars_each, chars / jobs)

    def slowed(self) -> None:
        """Note that what was claimed ahead was not started soon: claim for free slots only."""
        self.ended_per_second = 0.0

    def wanted(self, in_hand: int, busy: int) -> int:
        """Return how many jobs to claim now.

        ``in_hand`` jobs were claimed and have not ended; they belong to ``busy`` lanes, each of
        which has its jobs run one after the other.
        """
        ahead = min(int(self.ended_per_second * HORIZON_SECONDS), self._fitting(CHARS_AHEAD_MAX))
        free = max(0, self.slots - busy)
        wanted = max(free, self.slots + ahead - in_hand if ahead else free)
        held_max = max(1, min(self.jobs_max, self._fitting(CHARS_HELD_MAX)))
        claim_max = min(self.window, max(1, self._fitting(CHARS_AHEAD_MAX)))
        return max(0, min(wanted, held_max - in_hand, claim_max - self._coming))

    def _fitting(self, chars: int) -> int:
        """Return how many jobs have no more than so many characters, by those seen lately."""
        return int(chars / max(1.0, self.chars_each + self.returned_chars_each))


def _followed(average: float, measured: float) -> float:
    """Return an average that goes up at once, and down by and by."""
    return max(measured, average + _WEIGHT * (measured - average))

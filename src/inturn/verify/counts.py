"""What is counted against a job: attempts that failed, and crashes at which it was alone.

Only what a worker wrote down is seen. One that died, or whose connection was cut, may have been
given a job and not have known it: then the store counts a crash that no history tells of.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from uuid import UUID

from inturn.verify.ledger import LeaseSeen, Ledger, Run, Settle

MARGIN_SECONDS = 0.05  # between clocks

# A claim is made a moment after its worker was killed at most. A server goes on for longer when it
# is told to stop, and that connections were ended is written down a while after it was done.
MOMENT_SECONDS, WHILE_SECONDS = 2.0, 6.0

Claimed = tuple[LeaseSeen, int]  # with the attempt


class Counts:
    """How many attempts may have been counted against a job.

    A failure counts, and so does a crash at which the job was alone: under each lease one at most.
    Leases that nobody wrote down are *unseen*. Each lies between two that were seen, by its token
    as well, had all its time to run out there, and went with a worker that died or a connection
    that was lost.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lease_seconds = ledger.final.settings.lease_seconds
        self._tokens = sorted({lease.token for lease in ledger.leases})
        cuts = [*ledger.cuts, *(one.at for one in ledger.faults if one.name == "full-disk")]
        self._lost = [(at - WHILE_SECONDS, at + WHILE_SECONDS) for at in cuts]
        turned_at = _turned_at(ledger)
        for loss in ledger.losses:
            if loss.is_final:
                since = min(turned_at.get(loss.who, 0.0), loss.at)
                self._lost.append((since - MOMENT_SECONDS, loss.at + MOMENT_SECONDS / 2))

    def claims(self, job: UUID) -> list[Claimed]:
        """Return the leases of a job in the order in which the store gave them."""
        return sorted(self._ledger.claims_of[job], key=lambda one: one[0].token)

    def crashes_max(self, job: UUID) -> int:
        """Return how many leases at most, under which it was alone, were lost."""
        alone = sum(self._is_lost_alone(job, lease) for lease, _ in self.claims(job))
        return alone + self._unseen(job, self.claims(job), None)

    def most(self, job: UUID, before: LeaseSeen | None = None) -> int:
        """Return how many attempts at most were counted before a lease; without one, in all."""
        earlier = [one for one in self.claims(job) if before is None or one[0].token < before.token]
        return self.seen(job, before) + self._unseen(job, earlier, before)

    def seen(self, job: UUID, before: LeaseSeen | None = None) -> int:
        """Return how many at most by the leases that were seen."""
        return sum(
            self._counts(job, lease)
            for lease, _ in self._ledger.claims_of[job]
            if before is None or lease.token < before.token
        )

    def _counts(self, job: UUID, lease: LeaseSeen) -> bool:
        return self._is_lost_alone(job, lease) or any(
            one.verdict.said in ("retry", "bury") and self._ledger.may_have_happened(one)
            for one in self._ledger.settles_under(job, lease.token)
        )

    def _is_lost_alone(self, job: UUID, lease: LeaseSeen) -> bool:
        settles = self._ledger.settles_under(job, lease.token)
        return lease.alone and not any(one.is_taken for one in settles)

    def _unseen(self, job: UUID, earlier: Sequence[Claimed], before: LeaseSeen | None) -> int:
        """Return how many unseen leases there may have been, before a lease or in all."""
        leases = [lease for lease, _ in earlier]
        gaps = zip([None, *leases], [*leases, before], strict=True)
        return sum(self._unseen_between(job, first, second) for first, second in gaps)

    def _unseen_between(self, job: UUID, first: LeaseSeen | None, second: LeaseSeen | None) -> int:
        ledger = self._ledger
        since = ledger.submitted_at.get(job, 0.0) if first is None else first.asked_at
        until = ledger.last_at if second is None else second.at
        # A worker that is told to stop, at the end of a run, waits for no claim.
        left = int(second is None and not ledger.final.is_drained)
        if ledger.is_clock_wrong(since, until):  # so that a lease may run out at any moment
            lost = left + self._lost_in(since, until)
            return lost and min(lost, self._tokens_between(job, first, second))
        over_at = since if first is None else self._over_at(job, first)
        room = int((until - over_at + MARGIN_SECONDS) / self._lease_seconds)
        room -= first is None  # nobody is alone the first time
        if room <= 0:
            return 0
        lost = left + self._lost_in(over_at, until - self._lease_seconds)
        return min(room, lost, self._tokens_between(job, first, second))

    def _tokens_between(self, job: UUID, first: LeaseSeen | None, second: LeaseSeen | None) -> int:
        """Return how many tokens between two leases of a job are those of none that was seen."""
        leases = self._ledger.leases
        after = 0
        if first is None:
            submitted_at = self._ledger.submitted_at.get(job, 0.0)
            low = max((one.token for one in leases if one.at < submitted_at), default=0)
        else:
            low = first.token
        if second is None:
            last = max(leases, key=lambda one: one.token, default=None)
            high = low + 1 if last is None else last.token + 1
            # Of what was given out after the last that was seen, nobody knows the tokens.
            after = self._lost_in(0.0 if last is None else last.asked_at, self._ledger.last_at) + 1
        else:
            high = second.token
        seen = bisect_left(self._tokens, high) - bisect_right(self._tokens, low)
        return max(0, high - low - 1 - seen) + after

    def _over_at(self, job: UUID, lease: LeaseSeen) -> float:
        """When the store may have given a job to someone else, at the earliest."""
        settled = [
            one.at
            for one in self._ledger.settles_under(job, lease.token)
            if self._ledger.may_have_happened(one)
        ]
        return min(lease.kept_until, lease.given_up_at, *settled) - MARGIN_SECONDS

    def _lost_in(self, first: float, last: float) -> int:
        last += MARGIN_SECONDS
        return sum(begin <= last and end >= first for begin, end in self._lost)


def _turned_at(ledger: Ledger) -> dict[str, float]:
    """Return when the loop of each process was last seen to turn: then it reads its answers.

    What runs on threads does not tell.
    """
    found = dict(ledger.begun)
    lines: tuple[LeaseSeen | Settle | Run, ...] = (*ledger.leases, *ledger.settles, *ledger.runs)
    for one in lines:
        if not (isinstance(one, Run) and ledger.kind(one.job) == "threaded"):
            found[one.who] = max(found.get(one.who, 0.0), one.at)
    return found

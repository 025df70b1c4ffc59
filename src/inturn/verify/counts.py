"""What is counted against a job: attempts that failed, and crashes at which it was alone.

Only what a worker wrote down is seen. One that died, or whose connection was cut, may have been
given a job and not have known it: then the store counts a crash that no history tells of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from math import inf
from uuid import UUID

from inturn.verify.ledger import LeaseSeen, Ledger, Run, Settle

MARGIN_SECONDS = 0.05  # between clocks

# A claim takes a moment, and may end that much later than its worker. A server goes on for longer
# when it is told to stop, and that connections were ended is written down a while after that.
MOMENT_SECONDS, WHILE_SECONDS = 1.0, 6.0

_ANY_NUMBER = 1_000_000

Claimed = tuple[LeaseSeen, int]  # with the attempt


class Counts:
    """How many attempts may have been counted against a job.

    A failure counts, and so does a crash at which the job was alone: under each lease one at most.
    Leases that nobody wrote down are *unseen*. Each lies between two that were seen, has a token
    that none of those has, had all its time to run out there, and went with a worker that died or
    a connection that was lost.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lease_seconds = ledger.final.settings.lease_seconds
        self._given = list(_given(ledger.leases))
        cuts = [*ledger.cuts, *(one.at for one in ledger.faults if one.name == "full-disk")]
        self._lost = [(at - WHILE_SECONDS, at + WHILE_SECONDS) for at in cuts]
        turned_at = _turned_at(ledger)
        for loss in ledger.losses:
            if loss.is_final:
                since = min(turned_at.get(loss.who, 0.0), loss.at)
                self._lost.append((since - MOMENT_SECONDS, loss.at + MOMENT_SECONDS))

    @property
    def unseen_max(self) -> int:
        """How many leases at most that nobody wrote down were given before one that was seen."""
        return sum(n for _, end, n in self._given if end < inf)

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
            return min(lost, self._given_in(since, until))
        over_at = since if first is None else self._over_at(job, first)
        until += MOMENT_SECONDS
        room = int((until - over_at) / self._lease_seconds)
        room -= first is None  # nobody is alone the first time
        if room <= 0:
            return 0
        until -= self._lease_seconds
        return min(room, left + self._lost_in(over_at, until), self._given_in(over_at, until))

    def _over_at(self, job: UUID, lease: LeaseSeen) -> float:
        """When the store may have given a job to someone else, at the earliest."""
        settled = [
            one.at
            for one in self._ledger.settles_under(job, lease.token)
            if self._ledger.may_have_happened(one)
        ]
        return min(lease.kept_until, lease.given_up_at, *settled) - MARGIN_SECONDS

    def _given_in(self, first: float, last: float) -> int:
        """Return how many leases at most were given in a time that nobody wrote down."""
        return sum(n for begin, end, n in self._given if begin <= last and end >= first)

    def _lost_in(self, first: float, last: float) -> int:
        """Return how many workers and connections were lost in a time, and claims with them."""
        return sum(begin <= last and end >= first for begin, end in self._lost)


def _given(leases: Sequence[LeaseSeen]) -> Iterator[tuple[float, float, int]]:
    """Yield when tokens were given out that nobody wrote down: since, until, and how many.

    Tokens only go up, from 1, so that it was between the leases whose tokens stand beside them.
    Those after the last may be any number.
    """
    found = sorted(leases, key=lambda one: one.token)
    since = [-inf, *accumulate((one.asked_at for one in found), max)]
    until = [*accumulate((one.at for one in reversed(found)), min, initial=inf)][::-1]
    yield since[-1], inf, _ANY_NUMBER
    for n, (before, after) in enumerate(pairwise([0, *(one.token for one in found)])):
        if after > before + 1:
            yield since[n], until[n], after - before - 1


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

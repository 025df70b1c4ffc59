"""Leases in a worker's hands: which jobs have ended, and what is to be said of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from math import inf

from inturn.model.job import LeasedJob
from inturn.model.lease import Claim, Lease
from inturn.policy.settlement import Outcome, Settlement, gives_back_rest
from inturn.policy.verdict import Release
from inturn.worker.lease_clock import lease_now


class Run:
    """One lease and its jobs. What has ended is said once; what has not stays leased."""

    __slots__ = (
        "_all_said", "_noted", "_told", "behind", "claimed_at", "ended", "is_keyed", "is_lost",
        "is_over", "is_slow", "is_started", "kept_until", "lease", "left",
    )  # fmt: skip

    def __init__(self, claim: Claim, claimed_at: float = 0.0, kept_until: float = inf) -> None:
        self.lease: Lease = claim.lease
        self.is_keyed = claim.lease.is_keyed
        self.claimed_at = claimed_at
        self.kept_until = kept_until  # by ``lease_now``; later somebody else may have its jobs
        self.left = len(claim.jobs)
        self.ended: list[Outcome] = []
        self.is_started = False
        self.is_over = False  # nothing more of it may start
        self.behind: LeasedJob | None = None  # of a lane that is over: the first that is given back
        self.is_lost = False  # it is someone else's now
        self.is_slow = False  # a lane whose jobs take long: what has not started is given back
        self._noted = 0  # outcomes the store is to be told of: counted where the jobs run …
        self._told = 0  # … and those it was told of: counted on the loop
        self._all_said: asyncio.Event | None = None  # made by who waits until it was

    @property
    def is_ours(self) -> bool:
        """Whether nobody else can have its jobs yet."""
        return not self.is_over and lease_now() <= self.kept_until

    def note(self, outcome: Outcome, *, is_settled: bool) -> int:
        """Note what became of a job; return how many jobs of the run that ends.

        ``is_settled``: the store knows it already.
        """
        if not is_settled:
            self.ended.append(outcome)
        count = self.left if gives_back_rest(self.lease, outcome) else 1
        self.left -= count
        return count

    def keep(self, asked_at: float, until: float) -> None:
        """Note that the store called the lease held, when asked at a time. From any thread.

        One that had run out by then proves nothing: somebody may be taking it back.
        """
        if asked_at <= self.kept_until:
            self.kept_until = until

    def owe(self) -> None:
        """Count an outcome that the store is to be told of."""
        self._noted += 1

    def tell(self, outcomes: int) -> None:
        """Count outcomes that the store was told of."""
        self._told += outcomes
        if self._all_said is not None and self._told == self._noted:
            self._all_said.set()

    def lose(self) -> None:
        """Let nothing more of it start, and nobody wait for what will not be said."""
        self.is_lost = self.is_over = True
        if self._all_said is not None:
            self._all_said.set()

    async def said(self) -> None:
        """Wait until the store knows of every job that has ended; of a lane, that is."""
        if self.is_keyed and self._told < self._noted and not self.is_over:
            self._all_said = asyncio.Event()
            await self._all_said.wait()

    def settlement(self) -> Settlement:
        """Return what is to be said now, in the order of positions."""
        ended, self.ended = self.ended, []
        if not self.is_keyed:
            ended.sort(key=lambda outcome: outcome.job.position)
        return Settlement(self.lease, ended)


class Runs:
    """All leases of a worker."""

    def __init__(self) -> None:
        self._runs: dict[tuple[int, int | None], Run] = {}
        self._changed: dict[tuple[int, int | None], Run] = {}
        self._unsettled: dict[tuple[int, int | None], Run] = {}  # all ended; the store is told
        self._untold: dict[tuple[int, int | None], int] = {}  # outcomes; it is told of some first
        self.in_hand = 0

    def take(self, claim: Claim, claimed_at: float = 0.0, kept_until: float = inf) -> Run:
        """Begin with a claim, at a time."""
        run = Run(claim, claimed_at, kept_until)
        self._runs[_name(claim.lease)] = run
        self.in_hand += run.left
        return run

    def note(self, run: Run, outcome: Outcome, *, is_settled: bool = False) -> None:
        """Note what became of a job, to be settled with the next settlements."""
        name = _name(run.lease)
        if name not in self._runs:
            return  # the lease was lost meanwhile
        self.in_hand -= run.note(outcome, is_settled=is_settled)
        if run.ended:
            self._changed[name] = run
        elif not run.left:
            del self._runs[name]

    @property
    def unsaid(self) -> bool:
        """Whether there is something to settle."""
        return bool(self._changed)

    def lanes_ended(self) -> list[Lease]:
        """Return the leases on lanes of which all has ended and is to be settled next."""
        return [one.lease for one in self._changed.values() if one.is_keyed and not one.left]

    def settlements(self) -> list[Settlement]:
        """Return what is to be said of jobs that ended since the last time."""
        changed, self._changed = self._changed, {}
        said = []
        for name, run in changed.items():
            settlement = run.settlement()
            said.append(settlement)
            self._untold[name] = self._untold.get(name, 0) + len(settlement.outcomes)
            if not run.left:
                self._unsettled[name] = run  # first: at no moment it is not among the leases
                del self._runs[name]
        return said

    def settled(self, settlement: Settlement) -> None:
        """Hear that the store was told; forget a lease of which it has heard all."""
        name = _name(settlement.lease)
        untold = self._untold.pop(name, 0) - len(settlement.outcomes)
        if untold > 0:
            self._untold[name] = untold
        else:
            self._unsettled.pop(name, None)

    def rest(self, lease: Lease) -> Settlement | None:
        """Return what gives back the jobs behind the last that ended in a lane, if there are any.

        The word that ended it does so by itself, unless the store refuses that.
        """
        run = self._unsettled.get(_name(lease))
        if run is None or run.behind is None:
            return None
        return Settlement(lease, [released(run.behind)])

    def lose(self, leases: Iterable[Lease]) -> list[Run]:
        """Forget leases that are someone else's now; return their runs."""
        lost = []
        for lease in leases:
            self._unsettled.pop(_name(lease), None)
            self._untold.pop(_name(lease), None)
            run = self._runs.pop(_name(lease), None)
            if run is not None:
                self._changed.pop(_name(lease), None)
                self.in_hand -= run.left
                run.lose()
                lost.append(run)
        return lost

    def keep(self, leases: Iterable[Lease], asked_at: float, until: float) -> None:
        """Note that the store called leases held, when asked at a time. From any thread."""
        for lease in leases:
            if (run := self._runs.get(_name(lease))) is not None:
                run.keep(asked_at, until)

    def find(self, lease: Lease) -> Run | None:
        """Return the run of a lease, while some of it is left."""
        return self._runs.get(_name(lease))

    def leases(self) -> list[Lease]:
        """Return the leases that are to be kept: until the store has taken what became of the jobs,
        which a handler that blocks the loop, or the store itself, may hold up.

        From any thread: a list of values is made at once, whatever changes meanwhile.
        """
        runs = [*list(self._runs.values()), *list(self._unsettled.values())]
        return [run.lease for run in runs]


def released(job: LeasedJob) -> Outcome:
    """Say that a job was not started."""
    return Outcome(job, Release())


def _name(lease: Lease) -> tuple[int, int | None]:
    return lease.token, lease.lane

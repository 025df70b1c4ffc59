"""The rules of how jobs end that are not done, and of what is counted against them before.

Only what a worker wrote down is seen. One that died, or whose connection was cut, may have been
given a job and not have known it: then the store counts a crash that no history tells of.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from uuid import UUID

from inturn.model.job import JobState
from inturn.verify.ledger import LeaseSeen, Ledger, Run, Settle

MARGIN_SECONDS = 0.05  # between clocks
IN_PROCESS = frozenset({"isolated", "eats"})

# A claim is made a moment after its worker was killed at most. A server goes on for longer when it
# is told to stop, and that connections were ended is written down a while after it was done.
MOMENT_SECONDS, WHILE_SECONDS = 2.0, 6.0

Claimed = tuple[LeaseSeen, int]  # with the attempt


class Counts:
    """How many attempts may have been counted against a job.

    A failure counts, and so does a crash at which the job was alone: under each lease one at most.
    Leases that nobody wrote down are *unseen*. Each lies between two that were seen, had all its
    time to run out there, and went with a worker that died or a connection that was lost.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lease_seconds = ledger.final.settings.lease_seconds
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
            return left + self._lost_in(since, until)
        over_at = since if first is None else self._over_at(job, first)
        room = int((until - over_at + MARGIN_SECONDS) / self._lease_seconds)
        room -= first is None  # nobody is alone the first time
        if room <= 0:
            return 0
        return min(room, left + self._lost_in(over_at, until - self._lease_seconds))

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


def causes(ledger: Ledger) -> Iterator[str]:
    """A job is dead because its last attempt failed, or its worker died too often while it was
    alone, or what it waits for was cancelled or dropped; and it is cancelled if someone did that.

    No handler of a run rejects its job: a job that is buried has used up its attempts.
    """
    counts = Counts(ledger)
    for job, planned in ledger.planned.items():
        state, reason = _end(ledger, job)
        if state is JobState.CANCELLED and not ledger.cancelling[job]:
            yield f"job {job} is cancelled, and nobody had asked for that"
        if state is not JobState.DEAD:
            continue
        has_failed = any(
            one.verdict.said in ("retry", "bury")
            and ledger.may_have_happened(one)
            and ledger.is_spent(one)
            for one in ledger.settles_of[job]
        )
        is_forsaken = any(_is_given_up(ledger, other) for other in planned.after)
        may_crash = reason is None or _crashes(reason) is not None
        if has_failed or is_forsaken or (may_crash and counts.most(job) >= planned.attempts_max):
            continue
        yield (
            f"job {job} is dead ({reason}), and neither its {planned.attempts_max} attempts nor "
            f"what it waits for explain that"
        )


def burying(ledger: Ledger) -> Iterator[str]:
    """A job whose last attempt failed is a dead letter."""
    for job, settles in ledger.settles_of.items():
        buried = any(
            one.is_taken and one.verdict.said != "done" and ledger.ends(one) for one in settles
        )
        state, _ = _end(ledger, job)
        if buried and state is not JobState.DEAD:
            where = "nowhere" if state is None else state
            yield f"job {job} was buried, and is {where} instead of among the dead letters"


def charges(ledger: Ledger) -> Iterator[str]:
    """An attempt is counted for a failure, or for a crash at which the job was alone."""
    counts = Counts(ledger)
    for job, claims in ledger.claims_of.items():
        for lease, attempt in claims:
            if attempt - 1 > counts.seen(job, lease) and attempt - 1 > counts.most(job, lease):
                yield (
                    f"job {job} was given to {lease.who} for attempt {attempt} (lease "
                    f"{lease.token}), and of those before {counts.most(job, lease)} at most count"
                )
    for job, (attempts, _) in _letters(ledger):
        if attempts > counts.seen(job) and attempts > counts.most(job):
            yield f"job {job} died after {attempts} attempts, and {counts.most(job)} at most count"


def suspects(ledger: Ledger) -> Iterator[str]:
    """Only a job that was alone when its worker died has that crash counted against it, and
    nothing runs beside it in that worker's process.

    But for one that has a process of its own, which may run beside others.
    """
    counts = Counts(ledger)
    for job, (_, reason) in _letters(ledger):
        crashes = _crashes(reason)
        if crashes is not None and crashes > counts.crashes_max(job):
            yield (
                f"job {job} was buried for {crashes} crashes, and was alone in a worker that died "
                f"{counts.crashes_max(job)} times at most"
            )
    by_process: defaultdict[str, list[Run]] = defaultdict(list)
    for run in ledger.runs:
        by_process[run.who].append(run)
    for lease in ledger.leases:
        if not lease.alone or not lease.jobs:
            continue
        run_alone = ledger.run_under(lease.jobs[0][0], lease.token)
        if run_alone is None or ledger.kind(run_alone.job) in IN_PROCESS:
            continue
        # One whose lease ran out is no suspect of this worker's any more, even if it still runs.
        until = min(run_alone.ended_at, lease.given_up_at, lease.kept_until - MARGIN_SECONDS)
        for other in by_process[run_alone.who]:
            if run_alone.at < other.at < until:
                if not ledger.is_clock_wrong(lease.asked_at, other.at):
                    yield f"job {other.job} began in {other.who} beside the suspect {run_alone.job}"
            elif (
                other.at < run_alone.at < other.ended_at and ledger.run_until(other) > run_alone.at
            ):
                yield f"the suspect {run_alone.job} began in {other.who} beside job {other.job}"


def _end(ledger: Ledger, job: UUID) -> tuple[JobState | None, str | None]:
    """Return how a job ended, and why.

    A dead letter may have been dropped with no answer, so that nobody knows why it was one.
    """
    if job in ledger.dropped:
        return JobState.DEAD, ledger.dropped[job].reason
    found = ledger.final.jobs.get(job)
    if found is None:
        return None, None
    if _is_dropped(found.state, found.reason):
        return JobState.DEAD, None
    return found.state, found.reason or ""


def _is_dropped(state: JobState, reason: str | None) -> bool:
    return state is JobState.CANCELLED and (reason or "").startswith("dropped by ")


def _is_given_up(ledger: Ledger, job: UUID) -> bool:
    """Whether a job was cancelled or dropped, so that what waits for it never runs."""
    found = ledger.final.jobs.get(job)
    return job in ledger.dropped or (found is not None and found.state is JobState.CANCELLED)


def _letters(ledger: Ledger) -> Iterator[tuple[UUID, tuple[int, str]]]:
    """Yield the dead letters, those that were dropped among them: attempts, and why."""
    for job, letter in ledger.dropped.items():
        yield job, (letter.attempts, letter.reason)
    for job, found in ledger.final.jobs.items():
        if found.state is JobState.DEAD:
            yield job, (found.attempts, found.reason or "")


def _crashes(reason: str) -> int | None:
    """Return for how many crashes a job was buried; None if for something else."""
    found = re.match(r"its worker died (\d+) times ", reason)
    return None if found is None else int(found[1])

"""The rules of how jobs end that are not done, and of what is counted against them before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import inf
from uuid import UUID

from inturn.model.job import JobState
from inturn.verify.counts import MARGIN_SECONDS, Counts
from inturn.verify.final import crashes_in
from inturn.verify.ledger import LeaseSeen, Ledger, Run

IN_PROCESS = frozenset({"isolated", "eats"})


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
        may_crash = reason is None or crashes_in(reason) is not None
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
    """An attempt is counted for a failure, or for a crash at which the job was alone.

    A lease that nobody wrote down was one job's alone, and explains no more than one crash.
    """
    counts = Counts(ledger)
    unseen = 0
    for job, claims in ledger.claims_of.items():
        unseen += max(0, *(attempt - 1 - counts.seen(job, lease) for lease, attempt in claims))
        for lease, attempt in claims:
            if attempt - 1 > counts.seen(job, lease) and attempt - 1 > counts.most(job, lease):
                yield (
                    f"job {job} was given to {lease.who} for attempt {attempt} (lease "
                    f"{lease.token}), and of those before {counts.most(job, lease)} at most count"
                )
    if unseen > counts.unseen_max:
        yield (
            f"{unseen} attempts were counted for crashes that nobody saw, and at most "
            f"{counts.unseen_max} leases were given that nobody wrote down"
        )
    for job, (attempts, _) in _letters(ledger):
        if attempts > counts.seen(job) and attempts > counts.most(job):
            yield f"job {job} died after {attempts} attempts, and {counts.most(job)} at most count"


def suspects(ledger: Ledger) -> Iterator[str]:
    """Only a job that was alone when its worker died has that crash counted against it, and
    nothing runs beside it in that worker, not even in a process of its own.
    """
    counts = Counts(ledger)
    for job, (_, reason) in _letters(ledger):
        crashes = crashes_in(reason)
        if crashes is not None and crashes > counts.crashes_max(job):
            yield (
                f"job {job} was buried for {crashes} crashes, and was alone in a worker that died "
                f"{counts.crashes_max(job)} times at most"
            )
    by_worker: defaultdict[str, list[Run]] = defaultdict(list)
    for run in ledger.runs:
        held = _lease_of(ledger, run)
        by_worker[run.who if held is None else held.who].append(run)
    for lease in ledger.leases:
        if not lease.alone or not lease.jobs:
            continue
        run_alone = ledger.run_under(lease.jobs[0][0], lease.token)
        if run_alone is None:
            continue
        # One whose lease ran out is no suspect of this worker's any more, even if it still runs.
        until = min(run_alone.ended_at, lease.given_up_at, lease.kept_until - MARGIN_SECONDS)
        for other in by_worker[lease.who]:
            if run_alone.at < other.at < until:
                if not ledger.is_clock_wrong(lease.asked_at, other.at):
                    yield f"job {other.job} began in {lease.who} beside the suspect {run_alone.job}"
            elif other.at < run_alone.at and _is_running(ledger, other, run_alone.at):
                yield f"the suspect {run_alone.job} began in {lease.who} beside job {other.job}"


def _lease_of(ledger: Ledger, run: Run) -> LeaseSeen | None:
    """Return the lease that a job was run under, if it was written down."""
    held = (lease for lease, _ in ledger.claims_of[run.job] if lease.token == run.token)
    return next(held, None)


def _is_running(ledger: Ledger, run: Run, at: float) -> bool:
    """Whether a handler that had begun had not ended yet.

    One in a process of its own is killed when its lease is lost, and writes down no end.
    """
    lease = _lease_of(ledger, run)
    if lease is None or ledger.kind(run.job) not in IN_PROCESS:
        return at < ledger.run_until(run)
    is_kept = at < lease.kept_until - MARGIN_SECONDS
    if is_kept and not ledger.is_clock_wrong(lease.asked_at, at):
        return at < ledger.run_until(run)
    return at < run.ended_at < inf


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

"""The rules: each promise a small function that says in sentences how a history breaks it.

They know the history and what the store says at the end, and nothing of its tables. Where nobody
can know whether a call happened, because its process died or the store went away, the store has
the benefit of the doubt.
"""

from __future__ import annotations

import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import inf
from uuid import UUID

import msgspec

from inturn.model.job import JobState
from inturn.verify.counts import MARGIN_SECONDS
from inturn.verify.deaths import burying, causes, charges, suspects
from inturn.verify.jobs import EXIT_CODE
from inturn.verify.ledger import LeaseSeen, Ledger, Run, Settle

ENDS = frozenset({JobState.DONE, JobState.DEAD, JobState.CANCELLED})


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """A promise that was not kept: which, and in which way."""

    promise: str
    rule: str
    text: str


Rule = Callable[[Ledger], Iterator[str]]


def accounted(ledger: Ledger) -> Iterator[str]:
    """Every accepted job ended as its history says, or is still there."""
    for job in ledger.accepted_at:
        state = ledger.state(job)
        settles = ledger.settles_of[job]
        if state is None:
            yield f"job {job} was accepted and is gone"
        elif state is JobState.DONE and ledger.done_at(job) == inf:
            yield f"job {job} is done in the store, and nobody settled it as done"
        elif state is not JobState.DONE and any(
            one.is_taken and one.verdict.said == "done" for one in settles
        ):
            yield f"job {job} was settled as done, and is {state}"
        elif job in ledger.cancelled and state is not JobState.CANCELLED:
            yield f"job {job} was cancelled, and is {state}"
        elif ledger.final.is_drained and state not in ENDS:
            yield f"job {job} is {state} in a store that is drained"


def drained(ledger: Ledger) -> Iterator[str]:
    """Everything that was accepted came to its end in time."""
    if not ledger.final.is_drained and not ledger.final.is_interrupted:
        left = Counter(str(one.state) for one in ledger.final.jobs.values())
        shown = ", ".join(f"{count} {state}" for state, count in sorted(left.items()))
        yield f"the run did not come to its end: {shown}"


def tables(ledger: Ledger) -> Iterator[str]:
    """``store.check()`` finds nothing."""
    yield from ledger.final.check


def once(ledger: Ledger) -> Iterator[str]:
    """No job is settled as done twice, and none that is done is given out again."""
    for job, settles in ledger.settles_of.items():
        done = [one for one in settles if one.is_taken and one.verdict.said == "done"]
        if len(done) > 1:
            who = " and ".join(f"{one.who} under lease {one.verdict.token}" for one in done)
            yield f"job {job} was settled as done {len(done)} times: by {who}"
        if done:
            first = min(one.answered_at for one in done)
            for lease, _ in ledger.claims_of[job]:
                if lease.asked_at > first:
                    yield f"job {job} was given to {lease.who} after it was done"
    for job, before, after in ledger.moved:
        yield f"job {job} stands twice: at {_place(before)} and at {_place(after)}"


def effects(ledger: Ledger) -> Iterator[str]:
    """What a handler commits with its job's end is there once if the job is done, and else not."""
    rows = Counter(job for job, _ in ledger.final.effects)
    for job, count in rows.items():
        state = ledger.state(job)
        if count > 1:
            yield f"the effect of job {job} happened {count} times"
        elif state is not JobState.DONE:
            yield f"the effect of job {job} happened, and the job is {state}"
    for job, planned in ledger.planned.items():
        is_done = ledger.state(job) is JobState.DONE
        if planned.kind == "effect" and is_done and job not in rows:
            yield f"job {job} is done, and its effect did not happen"


def places(ledger: Ledger) -> Iterator[str]:
    """Within a key, positions are given in the order in which jobs were accepted."""
    for lane, jobs in ledger.lanes():
        latest, before = 0.0, None
        for position, job in jobs:
            planned = ledger.planned[job]
            if planned.delay_seconds or planned.after:
                continue  # it joins its lane later, when it may run
            if ledger.accepted_at.get(job, inf) < latest:
                yield (
                    f"job {job} stands at position {position} of lane {lane}, behind {before}, "
                    f"which was submitted after {job} had been accepted"
                )
            if (submitted := ledger.submitted_at[job]) > latest:
                latest, before = submitted, job


def order(ledger: Ledger) -> Iterator[str]:
    """Jobs of a key start in their order: each when those before it have ended."""
    for lease in ledger.leases:
        if lease.lane is None or lease.key is None:
            continue
        for (before, *_), (job, *_) in pairwise(lease.jobs):
            run = ledger.run_under(job, lease.token)
            earlier = ledger.run_under(before, lease.token)
            if run is not None and (earlier is None or not earlier.ok or earlier.ended_at > run.at):
                settled = [o.at for o in ledger.settles_of[before] if o.verdict.said == "done"]
                if min(settled, default=inf) > run.at:
                    yield (
                        f"job {job} of key {lease.key!r} began before {before}, which stands "
                        f"before it, had ended (lease {lease.token})"
                    )
    by_lane = ledger.leases_by_lane()
    for lane, jobs in ledger.lanes():
        ended = [ledger.ended_at(job) for _, job in jobs]
        number = {position: n for n, (position, _) in enumerate(jobs)}
        latest = _running_max(ended)
        for lease in by_lane.get(lane, ()):
            if not lease.jobs:
                continue
            n = number.get(lease.jobs[0][1], 0)
            if n and latest[n - 1] > lease.at:
                late = next(m for m in range(n) if ended[m] > lease.at)
                yield (
                    f"job {lease.jobs[0][0]} at position {jobs[n][0]} of lane {lane} was given out "
                    f"before {jobs[late][1]} at position {jobs[late][0]} had ended"
                )


def one_lease(ledger: Ledger) -> Iterator[str]:
    """A keyed lane has one lease at a time."""
    for lane, leases in ledger.leases_by_lane().items():
        for first, second in pairwise(leases):
            until = min(first.kept_until, first.given_up_at) - MARGIN_SECONDS
            if second.at < until and not ledger.is_clock_wrong(first.asked_at, second.at):
                yield (
                    f"lane {lane} (key {first.key!r}) was leased to {second.who} "
                    f"(lease {second.token}) {until - second.at:.2f} s before lease "
                    f"{first.token} of {first.who} was over"
                )


def at_once(ledger: Ledger) -> Iterator[str]:
    """Handlers of a key never run at the same time, as long as the first one's lease is valid.

    But for the one that a process was about to start when it was stopped.
    """
    for lane, leases in ledger.leases_by_lane().items():
        under = [
            (run, lease)
            for lease in leases
            for job, _, _ in lease.jobs
            for run in ledger.runs_of[job]
            if run.token == lease.token
        ]
        running: list[tuple[Run, LeaseSeen]] = []
        for run, lease in sorted(under, key=lambda one: one[0].at):
            running = [one for one in running if ledger.run_until(one[0]) > run.at]
            for other, its in running:
                is_over = run.at > its.kept_until - MARGIN_SECONDS
                is_excused = ledger.is_clock_wrong(its.asked_at, run.at) or _was_begun_before(
                    ledger, run, lease
                )
                if not is_over and not is_excused:
                    yield (
                        f"job {run.job} of lane {lane} (key {lease.key!r}) began in {run.who} "
                        f"while {other.job} ran in {other.who} under lease {its.token}"
                    )
            running.append((run, lease))


def _was_begun_before(ledger: Ledger, run: Run, lease: LeaseSeen) -> bool:
    """Say whether a process was stopped between its look at the lease and the handler's first line,
    and went on when the lease was over: nobody can prevent that, and it happens to one at most.
    """
    for begin, end in ledger.stops.get(run.who, ()):
        if begin < lease.kept_until < run.at and abs(run.at - end) < MARGIN_SECONDS:
            return not any(one.who == run.who and begin < one.at < run.at for one in ledger.runs)
    return False


def runs(ledger: Ledger) -> Iterator[str]:
    """A handler runs once under a lease, which it has; what is done has run to its end."""
    for job, started in ledger.runs_of.items():
        given_at = {lease.token: lease.at for lease, _ in ledger.claims_of[job]}
        for run in started:
            if given_at.get(run.token, inf) > run.at:
                yield (
                    f"job {job} began in {run.who} under lease {run.token}, which nobody had been "
                    f"given on it"
                )
        for token, count in Counter(run.token for run in started).items():
            if count > 1:
                yield f"job {job} began {count} times under lease {token}"
    for settle in ledger.settles:
        if settle.verdict.said == "done" and not _has_run(ledger, settle):
            yield (
                f"{settle.who} settled job {settle.verdict.job} as done under lease "
                f"{settle.verdict.token}, and its handler had not come to its end"
            )
    for job, cancelled_at in ledger.cancelled.items():
        for lease, _ in ledger.claims_of[job]:
            if lease.asked_at > cancelled_at:
                yield f"job {job} was given to {lease.who} after it was cancelled"


def fence(ledger: Ledger) -> Iterator[str]:
    """Nothing is settled under a lease after a later one has taken its place."""
    for settle in ledger.settles:
        if not settle.is_taken:
            continue
        job, token = settle.verdict.job, settle.verdict.token
        for lease, _ in ledger.claims_of[job]:
            if lease.token > token and lease.at < settle.at:
                yield (
                    f"{settle.who} settled job {job} as {settle.verdict.said} under lease {token}, "
                    f"{settle.at - lease.at:.2f} s after it was given to {lease.who} under lease "
                    f"{lease.token}"
                )


def attempts(ledger: Ledger) -> Iterator[str]:
    """An attempt is counted when it is claimed, and there are no more than the maximum."""
    for job, claims in ledger.claims_of.items():
        planned = ledger.planned.get(job)
        if planned is None:
            continue
        failed = [
            one.answered_at
            for one in ledger.settles_of[job]
            if one.is_taken and one.verdict.said == "retry"
        ]
        for lease, attempt in claims:
            before = sum(at < lease.asked_at for at in failed)
            if attempt > planned.attempts_max:
                yield f"job {job} was given out for attempt {attempt} of {planned.attempts_max}"
            if attempt <= before:
                yield (
                    f"job {job} was given out for attempt {attempt} after {before} had failed "
                    f"(at most {planned.attempts_max})"
                )


def after(ledger: Ledger) -> Iterator[str]:
    """A job runs when every job that it waits for is done."""
    for job, runs in ledger.runs_of.items():
        planned = ledger.planned.get(job)
        for other in planned.after if planned is not None else ():
            if ledger.done_at(other) > runs[0].at:
                yield f"job {job} began before {other}, which it waits for, was done"


def gates(ledger: Ledger) -> Iterator[str]:
    """No job of a later round begins before its gate opens, nor does a gate leave jobs behind.

    Those with a key are not judged by the second: what stands behind a job of a later round under
    its key is of that round as well, so that a gate passes it by rightly.
    """
    rounds = ledger.final.settings.rounds
    for job, runs in ledger.runs_of.items():
        planned = ledger.planned.get(job)
        if planned is None or planned.queue != rounds or not planned.round:
            continue
        opened = [gate.asked_at for gate in ledger.gates if gate.round >= planned.round]
        if min(opened, default=inf) > runs[0].at:
            yield f"job {job} of round {planned.round} began before its gate was opened"
    waiting = [
        (planned.round, ledger.accepted_at[job], ledger.ended_at(job), job)
        for job, planned in ledger.planned.items()
        if planned.queue == rounds and planned.key is None and job in ledger.accepted_at
    ]
    for gate in ledger.gates:
        for round, accepted_at, ended_at, job in waiting:
            if round <= gate.before and accepted_at < gate.asked_at and ended_at > gate.at:
                yield (
                    f"the gate opened to round {gate.round} while job {job} of round {round} was "
                    f"not finished"
                )


def delays(ledger: Ledger) -> Iterator[str]:
    """A delayed job does not begin before it is due."""
    for job, runs in ledger.runs_of.items():
        planned = ledger.planned.get(job)
        if planned is None or not planned.delay_seconds:
            continue
        submitted = ledger.submitted_at[job]
        early = submitted + planned.delay_seconds - MARGIN_SECONDS - runs[0].at
        if early > 0 and not ledger.is_clock_wrong(submitted, runs[0].at):
            yield f"job {job} began {early:.2f} s before it was due"


def dedupe(ledger: Ledger) -> Iterator[str]:
    """One dedupe key is one job."""
    found: defaultdict[str, set[UUID]] = defaultdict(set)
    for submission in ledger.submissions:
        for planned, place in zip(submission.jobs, submission.places or (), strict=False):
            if planned.dedupe is not None:
                found[planned.dedupe].add(place.id)
    for key, jobs in found.items():
        if len(jobs) > 1:
            yield f"dedupe key {key!r} is {len(jobs)} jobs: {', '.join(map(str, sorted(jobs)))}"


def batches(ledger: Ledger) -> Iterator[str]:
    """A batch is accepted whole or not at all."""
    final = ledger.final.jobs
    for submission in ledger.submissions:
        # Of jobs with one dedupe key the first is kept, under its own id.
        ids = [job.id for job in submission.jobs if job.dedupe is None]
        stored = [id for id in ids if id in final]
        if submission.is_refused:
            if any(id not in ledger.accepted_at for id in stored):
                yield f"a batch of {len(ids)} jobs was refused, and some of it is in the store"
        elif 0 < len(stored) < len(ids):
            yield f"of a batch of {len(ids)} jobs {len(stored)} are in the store"


def processes(ledger: Ledger) -> Iterator[str]:
    """No process of the run ends by itself."""
    # One that still begins when it is told to stop does not hear it, and is ended by the signal.
    allowed = {0, -signal.SIGKILL, -signal.SIGTERM, EXIT_CODE}
    for name, code in ledger.final.ends.items():
        if code not in allowed:
            yield f"{name} ended by itself, with {code}: look into processes.log"


RULES: dict[str, tuple[str, Rule]] = {
    "order": ("P1", order),
    "one lease": ("P1", one_lease),
    "at once": ("P1", at_once),
    "places": ("P1", places),
    "accounted": ("P2", accounted),
    "causes": ("P2", causes),
    "once": ("P2", once),
    "runs": ("P2", runs),
    "drained": ("P2", drained),
    "tables": ("P2", tables),
    "fence": ("P3", fence),
    "burying": ("P4", burying),
    "attempts": ("P5", attempts),
    "suspects": ("P6", suspects),
    "charges": ("P6", charges),
    "after": ("P7", after),
    "gates": ("P8", gates),
    "delays": ("P9", delays),
    "dedupe": ("P10", dedupe),
    "batches": ("P11", batches),
    "effects": ("P13", effects),
    "processes": ("worker", processes),
}


def judge(ledger: Ledger) -> list[Violation]:
    """Return everything that breaks a promise."""
    return [
        Violation(promise=promise, rule=name, text=text)
        for name, (promise, rule) in RULES.items()
        for text in rule(ledger)
    ]


def _has_run(ledger: Ledger, settle: Settle) -> bool:
    """Whether the handler of a job that is said to be done has done what it is for."""
    job, token = settle.verdict.job, settle.verdict.token
    under = [run for run in ledger.runs_of[job] if run.token == token]
    if ledger.kind(job) == "effect":  # which ends with its own commit, and before itself
        return any(run.at <= settle.at for run in under)
    return any(run.ok and run.ended_at <= settle.at for run in under)


def _running_max(values: list[float]) -> list[float]:
    highest, found = 0.0, []
    for value in values:
        highest = max(highest, value)
        found.append(highest)
    return found


def _place(place: tuple[int, int]) -> str:
    return f"position {place[1]} of lane {place[0]}"

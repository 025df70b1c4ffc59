"""What must be true of every state: the promises that the model is judged by."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.rules import Bounds
from tests.model.state import Held, Lease, Row, State

Wrong = tuple[str, str]
"""The promise that is broken, and what broke it."""

LOSS = "loss"
STRANDED = "stranded"
ORDER = "order"
SINGLE = "single lease"
FENCE = "fence"
TWICE = "twice"
ATTEMPTS = "attempts"
SUSPECTS = "suspects"
STUCK = "stuck"

PROMISES = {
    LOSS: "a job that was accepted waits, runs, is done or is dead: exactly one of them",
    STRANDED: "a lane in which a job stands is active, so that a claim finds it",
    ORDER: "positions are in the order of commits, and jobs of a lane start in that order",
    SINGLE: "a lane has one lease at a time",
    FENCE: "a settle under a lease that is gone writes nothing",
    TWICE: "a job ends once, and does not start again afterwards",
    ATTEMPTS: "a job is tried no more often than it may be",
    SUSPECTS: "after a crash in company each job is leased alone",
    STUCK: "whatever has happened, all can end well without another fault",
}


def broken(state: State, bounds: Bounds, aside: frozenset[str]) -> Wrong | None:
    """Return what is wrong with a state, or nothing. Some promises may be left aside."""
    found = [*state.wrongs, *_of_lanes(state, bounds)]
    return next((wrong for wrong in found if wrong[0] not in aside), None)


def of_lease(state: State, lease: Lease, jobs: tuple[int, ...]) -> Iterator[Wrong]:
    """Judge a lease that is about to be."""
    lane, truth = lease.lane, state.truths[lease.lane]
    if any(other.lane == lane for other in state.leases):
        yield SINGLE, f"lane {name(lane)} is leased twice at a time"
    for job in jobs:
        if job in truth.ended:
            yield TWICE, f"job {place(lane, job)} starts again though it has ended"
    first = min((job for job in state.log[lane] if job not in truth.ended), default=0)
    if jobs and first and first < jobs[0]:
        yield ORDER, f"job {place(lane, jobs[0])} starts before {place(lane, first)} has ended"
    if len(jobs) > 1 and jobs[0] <= truth.suspect_last:
        yield SUSPECTS, f"job {place(lane, jobs[0])} is a suspect, and leased in company"


def of_settle(state: State, held: Held, positions: tuple[int, ...]) -> Iterator[Wrong]:
    """Judge a settle that is about to take effect."""
    if not any(lease.serial == held.serial for lease in state.leases):
        settled = place(held.lane, held.first)
        yield FENCE, f"a settle of job {settled} took effect under a lease that is gone"
    for position in positions:
        if position in state.truths[held.lane].ended:
            yield TWICE, f"job {place(held.lane, position)} ends twice"


def name(lane: int) -> str:
    return "ABCDEFGH"[lane]


def place(lane: int, position: int) -> str:
    return f"{name(lane)}{position}"


def row_name(row: Row) -> str:
    kind, number = row
    return f"the tail of {name(number)}" if kind == "tail" else f"lane {name(number)}"


def _of_lanes(state: State, bounds: Bounds) -> Iterator[Wrong]:
    # Whoever buries in two transactions may still come to the second.
    unburied = [worker.unburied for worker in state.workers if worker.unburied is not None]
    for number, lane in enumerate(state.lanes):
        log, truth = state.log[number], state.truths[number]
        if not lane.active and state.tails[number] >= lane.cursor:
            waits = place(number, lane.cursor)
            yield STRANDED, f"job {waits} stands in a lane that is not active: nobody will find it"
        if truth.tries > bounds.attempts_max:
            tried = f"{place(number, lane.head)} is tried {truth.tries} times"
            yield ATTEMPTS, f"job {tried} and may be {bounds.attempts_max}"
        if log != tuple(range(1, len(log) + 1)):
            yield ORDER, f"positions of lane {name(number)} were committed as {log}"
        for job in log:
            if job < lane.head and job not in truth.ended and (number, job) not in unburied:
                lost = place(number, job)
                yield LOSS, f"job {lost} is behind its head, and neither done nor dead"
            if job >= lane.head and (job in truth.ended or job in state.dead[number]):
                yield LOSS, f"job {place(number, job)} has ended and waits, both"

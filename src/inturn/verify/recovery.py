"""How long it took until the jobs of a worker went on that was killed, or stood still.

What is promised is a line that moves, not one time for every job. The jobs of a lost hand are
suspects, and a suspect runs alone: all but one stand in line. A job of a key stands behind those
before it as well, and one that was alone when its worker died waits longer after each crash. So
the first job of a hand is timed from the moment its worker was lost, and each other from the last
moment at which something moved that it may have waited for: a suspect, or a job in its lane.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from math import inf
from uuid import UUID

import msgspec

from inturn.policy.retry import crash_delay_seconds
from inturn.verify.faults import CLOCK_SECONDS_MAX
from inturn.verify.jobs import QUICK
from inturn.verify.ledger import LeaseSeen, Ledger, Loss
from inturn.verify.plan import Settings
from inturn.worker.suspects import ASK_SECONDS, EMPTY_SECONDS, TURN_SECONDS

SLACK_SECONDS = 10.0  # for a claim, on a machine that has other things to do
LOSS_SECONDS = 5.0  # for each other worker or connection lost meanwhile: another has to begin
CLOCK_SECONDS = 2 * CLOCK_SECONDS_MAX  # for a wrong clock: one may be fast, and another slow
CRASH_SECONDS = crash_delay_seconds(QUICK.attempts_max - 1)  # the longest that a suspect waits


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a lost hand: how long until it was given out again, and the bound.

    Time is not counted during which something was held up: the server was down, a process stood
    still, or its disk was full. Whatever else was lost meanwhile, and a wrong clock, are allowed
    for in the bound.
    """

    worker: str
    how: str  # it was lost
    job: UUID
    since: str  # what happened when its time began
    seconds: float
    seconds_max: float


class Return(msgspec.Struct, frozen=True, order=True):
    """A job of a lost hand that was given out again."""

    at: float
    job: UUID
    held_at: float  # when the lost worker was given it
    was_alone: bool
    lane: int | None


def recoveries(ledger: Ledger) -> Iterator[Recovery]:
    """Return how each job came back that was in the hands of a lost worker."""
    line, bound = _Line(ledger), _bound(ledger.final.settings)
    died_at = [loss.at for loss in ledger.losses if loss.is_final]
    for loss in ledger.losses:
        is_first = True
        for back in sorted(_returns(ledger, loss)):
            began_at, seconds_max, since = loss.at, bound, "that"
            if back.was_alone or not is_first:
                began_at = max(loss.at, line.moved_before(back))
                seconds_max += CRASH_SECONDS
                since = "what was before it had moved"
            is_first = False
            others = sum(began_at < at < back.at for at in (*died_at, *ledger.cuts))
            is_clock_wrong = ledger.is_clock_wrong(back.held_at, back.at)
            yield Recovery(
                worker=loss.who,
                how=loss.how,
                job=back.job,
                since=since,
                seconds=back.at - began_at - ledger.seconds_still(began_at, back.at),
                seconds_max=seconds_max + LOSS_SECONDS * others + CLOCK_SECONDS * is_clock_wrong,
            )


def _bound(settings: Settings) -> float:
    return (
        settings.lease_seconds
        + 1.25 * settings.sweep_seconds
        + ASK_SECONDS
        + EMPTY_SECONDS
        + TURN_SECONDS  # of other suspects, for as long as which other work has its turn
        + SLACK_SECONDS
    )


class _Line:
    """When suspects were given out and given up, and whatever a keyed lane gave."""

    def __init__(self, ledger: Ledger) -> None:
        suspects: list[float] = []
        lanes: defaultdict[int, list[float]] = defaultdict(list)
        for lease in ledger.leases:
            times = [at for at in (lease.at, lease.given_up_at) if at != inf]
            if lease.alone:
                suspects += times
            if lease.lane is not None and lease.key is not None:
                lanes[lease.lane] += times
        self._suspects = sorted(suspects)
        self._lanes = {lane: sorted(times) for lane, times in lanes.items()}

    def moved_before(self, back: Return) -> float:
        """Return when something moved last that a job may have waited for."""
        lane = self._lanes.get(back.lane, []) if back.lane is not None else []
        return max(_last_before(self._suspects, back.at), _last_before(lane, back.at))


def _last_before(times: list[float], at: float) -> float:
    found = bisect_left(times, at)
    return times[found - 1] if found else 0.0


def _returns(ledger: Ledger, loss: Loss) -> Iterator[Return]:
    """Return the jobs that a worker had in hand when it was lost, and others got after it."""
    again = [one.at for one in ledger.losses if one.who == loss.who and one.at > loss.at]
    for lease in ledger.leases_of(loss.who):
        if not _is_lost(lease, loss):
            continue
        for job, _, _ in lease.jobs:
            later = [one.at for one, _ in ledger.claims_of[job] if one.token > lease.token]
            at = min(later, default=-inf)
            # Before the loss: it was not in hand any more. After another: that one tells of it.
            if loss.at < at < min(again, default=inf) and not _is_settled(ledger, job, lease):
                yield Return(at, job, lease.at, lease.alone, lease.lane if lease.key else None)


def _is_lost(lease: LeaseSeen, loss: Loss) -> bool:
    """Whether a lease was held when its worker was lost, and not prolonged since."""
    return lease.at < loss.at and lease.called_held_at < loss.at


def _is_settled(ledger: Ledger, job: UUID, lease: LeaseSeen) -> bool:
    """Whether its holder settled a job, or may have."""
    return any(
        one.verdict.token == lease.token and ledger.may_have_happened(one)
        for one in ledger.settles_of[job]
    )

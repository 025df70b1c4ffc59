"""What a call settles, checked: in the common case, all jobs of its leases done, at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import isnan
from typing import Any, NamedTuple

from inturn.model import bounds
from inturn.model.admissible import check_name
from inturn.policy.settlement import (
    PLAINLY_DONE,
    Outcome,
    Settlement,
    check_settlement,
    check_volume,
    gathered,
)
from inturn.policy.tally import Tally, tallies, tally_done

Run = tuple[int, int, int, int]
"""Positions that are done: token, lane, first, last."""

_LISTS = {list, tuple}  # what can be gone through several times


class DoneRuns(NamedTuple):
    """Runs of open lanes and of keyed ones that are done, and how they count."""

    open: list[Run]
    keyed: list[Run]
    tallies: list[Tally]


class Settling(NamedTuple):
    """Settlements of different leases that their leases can carry, and who settles.

    ``done``: the runs of leases of which every job is plainly done; ``others``: the rest.
    """

    settlements: Sequence[Settlement]
    worker: str
    done: DoneRuns
    others: Sequence[Settlement] = ()

    def tallies(self) -> list[Tally]:
        """Count what is settled, per queue and kind."""
        return [*self.done.tallies, *tallies(self.others)] if self.others else self.done.tallies


def check_settlements(settlements: Sequence[Settlement], worker: str) -> Settling:
    """Refuse settlements that their leases cannot carry, before the store is touched."""
    check_name("worker", worker, bounds.WORKER_CHARS_MAX)
    if (done := done_runs(settlements)) is not None:
        return Settling(settlements, worker, done)
    every = gathered(settlements)
    whole: list[Settlement] = []
    others: list[Settlement] = []
    for settlement in every:
        (whole if _is_whole(settlement) else others).append(settlement)
    if (done := done_runs(whole)) is None:
        done, others = DoneRuns([], [], []), [*every]
    for settlement in others:
        check_settlement(settlement)
    check_volume(others)
    return Settling(every, worker, done, others)


def _is_whole(settlement: Settlement) -> bool:
    """Whether all jobs of a lease are said to be plainly done."""
    lease, outcomes = settlement.lease, settlement.outcomes
    if len(outcomes) != lease.last - lease.first + 1:
        return False
    return all(type(one) is Outcome and one.verdict is PLAINLY_DONE for one in outcomes)


def done_runs(settlements: Sequence[Settlement]) -> DoneRuns | None:
    """Return the runs of settlements, if each is of another lease and all of its jobs are done.

    None asks for a closer look. Every job passes here, so each thing is looked at in one sweep.
    """
    try:
        return _done_runs(settlements)
    except (AttributeError, TypeError):  # something is not what it should be
        return None


def _done_runs(settlements: Sequence[Settlement]) -> DoneRuns | None:
    leases = [settlement.lease for settlement in settlements]
    groups = [settlement.outcomes for settlement in settlements]
    if not (groups and set(map(type, groups)) <= _LISTS):
        return None
    runs: list[Any] = [(lease.token, lease.lane, lease.first, lease.last) for lease in leases]
    numbers = [*chain.from_iterable(runs)]
    if set(map(type, numbers)) != {int} or not _are_stored(numbers):
        return None
    if [len(group) for group in groups] != [last - first + 1 for _, _, first, last in runs]:
        return None
    outcomes = [*chain.from_iterable(groups)]
    jobs = [outcome.job for outcome in outcomes]
    places = chain.from_iterable(range(first, last + 1) for _, _, first, last in runs)
    if not outcomes or [job.position for job in jobs] != [*places]:
        return None
    if [outcome.verdict for outcome in outcomes].count(PLAINLY_DONE) < len(outcomes):
        return None
    seconds = [outcome.seconds for outcome in outcomes]
    if set(map(type, seconds)) != {float} or not _are_durations(seconds):
        return None
    if len({run[:2] for run in runs}) < len(runs):
        return None
    queues, kinds = {lease.queue for lease in leases}, {job.kind for job in jobs}
    are_alike = len(queues) == len(kinds) == 1
    return DoneRuns(
        [run for run, lease in zip(runs, leases, strict=True) if lease.key is None],
        [run for run, lease in zip(runs, leases, strict=True) if lease.key is not None],
        [tally_done(queues.pop(), kinds.pop(), seconds)] if are_alike else tallies(settlements),
    )


def _are_stored(numbers: Sequence[int]) -> bool:
    return min(numbers) >= -bounds.STORED_MAX and max(numbers) <= bounds.STORED_MAX


def _are_durations(seconds: Sequence[float]) -> bool:
    in_bounds = min(seconds) >= 0.0 and max(seconds) <= bounds.DURATION_SECONDS_MAX
    return in_bounds and not isnan(sum(seconds))

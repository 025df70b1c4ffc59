"""The common settlement, seen at a glance: all of its jobs are done, and nothing more is said."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from math import isnan
from operator import le, sub
from typing import Any, NamedTuple

from inturn.model import bounds
from inturn.model.job import LeasedJob
from inturn.model.lease import Lease
from inturn.policy.settlement import PLAINLY_DONE, Outcome, Settlement
from inturn.policy.tally import Tally, tallies, tally_done

Run = tuple[int, int, int, int]
"""Positions that are done: token, lane, first, last."""

_LISTS = {list, tuple}  # what can be gone through several times


class Spans(NamedTuple):
    """Runs as three columns: the lease that each is under, and its first and last position."""

    leases: list[Lease]
    firsts: list[int]
    lasts: list[int]


class DoneRuns(NamedTuple):
    """Runs of open lanes and of keyed ones that are done, and how they count."""

    open: list[Run]
    keyed: list[Run]
    tallies: list[Tally]


def done_runs(settlements: Sequence[Settlement]) -> DoneRuns | None:
    """Return the runs of settlements, if all are of lanes, each of another lease, within it, and
    say of every job no more than that it is done. None asks for a closer look.

    A lane with a key is settled in one run. Jobs without one end as they like, and leave gaps.

    Every job passes here, so each thing is looked at in one sweep over all of them.
    """
    try:
        return _done_runs(settlements)
    except (AttributeError, TypeError):  # something is not what it should be
        return None


def _done_runs(settlements: Sequence[Settlement]) -> DoneRuns | None:
    leases = [settlement.lease for settlement in settlements]
    groups = [settlement.outcomes for settlement in settlements]
    if not (groups and set(map(type, groups)) <= _LISTS and all(groups)):
        return None
    outcomes = [*chain.from_iterable(groups)]
    verdicts = [outcome.verdict for outcome in outcomes]
    seconds = [outcome.seconds for outcome in outcomes]
    if verdicts.count(PLAINLY_DONE) < len(verdicts) or not _are(float, seconds):
        return None
    seconds.sort()
    if not _are_durations(seconds):
        return None
    jobs = [outcome.job for outcome in outcomes]
    spans = _spans(leases, groups, [job.position for job in jobs])
    runs = None if spans is None else _within(spans)
    if spans is None or runs is None or not _are_different(leases):
        return None
    return DoneRuns(
        [run for run, lease in zip(runs, spans.leases, strict=True) if lease.key is None],
        [run for run, lease in zip(runs, spans.leases, strict=True) if lease.key is not None],
        _tallies(settlements, jobs, seconds),
    )


def _spans(
    leases: list[Lease], groups: Sequence[Sequence[Outcome]], positions: list[int]
) -> Spans | None:
    """Return where the runs of all groups begin and end; None if one is not in order."""
    firsts = [group[0].job.position for group in groups]
    ends = [first + len(group) for first, group in zip(firsts, groups, strict=True)]
    if positions == [*chain.from_iterable(map(range, firsts, ends))]:
        return Spans(leases, firsts, [end - 1 for end in ends])
    spans = Spans([], [], [])
    for lease, group in zip(leases, groups, strict=True):
        gaps = _gaps([outcome.job.position for outcome in group])
        if gaps is None or (gaps and lease.key is not None):
            return None
        spans.leases.extend(repeat(lease, len(gaps) + 1))
        spans.firsts.extend(group[place].job.position for place in [0, *gaps])
        spans.lasts.extend(group[place - 1].job.position for place in [*gaps, len(group)])
    return spans


def _gaps(positions: Sequence[int]) -> list[int] | None:
    """Return before which places something is left out; None if positions do not ascend."""
    steps = [*map(sub, positions[1:], positions)]
    if not _are(int, positions) or min(steps, default=1) < 1:
        return None
    return [place for place, step in enumerate(steps, 1) if step > 1]


def _are(kind: type, things: Sequence[Any]) -> bool:
    return set(map(type, things)) == {kind}


def _are_durations(ordered: Sequence[float]) -> bool:
    in_bounds = ordered[0] >= 0.0 and ordered[-1] <= bounds.DURATION_SECONDS_MAX
    return in_bounds and not isnan(sum(ordered))  # what is no number stands anywhere in an order


def _within(spans: Spans) -> list[Run] | None:
    """Return runs if they are of lanes, and within what their leases cover."""
    leases, firsts, lasts = spans
    tokens = [lease.token for lease in leases]
    lanes: list[Any] = [lease.lane for lease in leases]
    leased_firsts = [lease.first for lease in leases]
    leased_lasts = [lease.last for lease in leases]
    numbers = [*tokens, *lanes, *leased_firsts, *leased_lasts, *firsts]
    if not _are(int, numbers):
        return None
    if min(numbers) < -bounds.STORED_MAX or max(numbers) > bounds.STORED_MAX:
        return None
    if not (all(map(le, leased_firsts, firsts)) and all(map(le, lasts, leased_lasts))):
        return None
    return [*zip(tokens, lanes, firsts, lasts, strict=True)]


def _are_different(leases: Sequence[Lease]) -> bool:
    tokens = {lease.token for lease in leases}
    lanes: list[Any] = [lease.lane for lease in leases]
    names = lanes if len(tokens) == 1 else [(lease.token, lease.lane) for lease in leases]
    return len(set(names)) == len(leases)


def _tallies(
    settlements: Sequence[Settlement], jobs: Sequence[LeasedJob], seconds: Sequence[float]
) -> list[Tally]:
    queues = {settlement.lease.queue for settlement in settlements}
    kinds = {job.kind for job in jobs}
    if len(queues) > 1 or len(kinds) > 1:
        return tallies(settlements)
    return [tally_done(queues.pop(), kinds.pop(), seconds)]

"""What a call settled, counted per queue and kind: one row of the statistics each."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise

import msgspec

from inturn.model import bounds
from inturn.model.admissible import check_name
from inturn.model.worker import DURATION_BOUNDS_SECONDS
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Release, Retry


class Tally(msgspec.Struct):
    """What one call settled for one kind of one queue. What was not started has no duration."""

    queue: str
    kind: str
    done: int = 0
    retried: int = 0
    buried: int = 0
    released: int = 0
    seconds_sum: float = 0.0
    durations: Sequence[int] = ()  # counts per bucket of DURATION_BOUNDS_SECONDS, and one beyond


def tallies(settlements: Iterable[Settlement]) -> list[Tally]:
    """Count what a call settles, per queue and kind, in a fixed order."""
    grouped: defaultdict[tuple[str, str], list[Outcome]] = defaultdict(list)
    queue = kind = None
    same: list[Outcome] = []  # most are like the one before
    for settlement in settlements:
        for outcome in settlement.outcomes:
            if outcome.job.kind != kind or settlement.lease.queue != queue:
                queue, kind = settlement.lease.queue, outcome.job.kind
                same = grouped[queue, kind]
            same.append(outcome)
    return [_tally(*place, grouped[place]) for place in sorted(grouped)]


def tally_done(queue: str, kind: str, seconds: Sequence[float]) -> Tally:
    """Count jobs of one kind that are done, by how long each took."""
    check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
    check_name("kind", kind, bounds.KIND_CHARS_MAX)
    ends = [*map(partial(bisect_right, sorted(seconds)), DURATION_BOUNDS_SECONDS), len(seconds)]
    return Tally(
        queue,
        kind,
        done=len(seconds),
        seconds_sum=sum(seconds),
        durations=[end - start for start, end in pairwise([0, *ends])],
    )


def _tally(queue: str, kind: str, outcomes: Sequence[Outcome]) -> Tally:
    verdicts = Counter([type(outcome.verdict) for outcome in outcomes])
    seconds = [outcome.seconds for outcome in outcomes if type(outcome.verdict) is not Release]
    return msgspec.structs.replace(
        tally_done(queue, kind, seconds),
        done=verdicts[Done],
        retried=verdicts[Retry],
        buried=verdicts[Bury],
        released=verdicts[Release],
    )

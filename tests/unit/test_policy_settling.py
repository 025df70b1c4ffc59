"""The settlement seen at a glance says what a closer look would, or asks for one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from inturn.model import bounds
from inturn.model.lease import Lease
from inturn.policy.settlement import (
    Outcome,
    Settlement,
    check_settlement,
    done_ranges,
    gathered,
)
from inturn.policy.settling import done_runs
from inturn.policy.tally import tallies
from inturn.policy.verdict import Bury, Done, Release, Retry, Verdict
from tests.unit.test_policy_settlement import lease, leased


def settlement(under: Lease, first: int, last: int, kind: str = "k") -> Settlement:
    said = [Outcome(leased(place, kind), Done(), 0.5) for place in range(first, last + 1)]
    return Settlement(under, said)


UNDER = lease(first=2, last=4)
PLAIN = settlement(UNDER, 2, 4)
OPEN = settlement(lease(key=None, lane=2), 1, 9, "other")


def test_runs_that_are_done_are_seen_and_counted() -> None:
    seen = done_runs([PLAIN, OPEN])
    assert seen is not None
    assert (seen.open, seen.keyed) == ([(5, 2, 1, 9)], [(5, 1, 2, 4)])
    assert seen.tallies == tallies([PLAIN, OPEN])
    alike = [PLAIN, settlement(lease(lane=3, last=1), 1, 1)]
    seen = done_runs(alike)
    assert seen is not None
    assert seen.tallies == tallies(alike)


def but(place: int = 1, **changes: Any) -> list[Outcome]:
    """The outcomes of a plain settlement, one of them changed."""
    outcomes = list(PLAIN.outcomes)
    outcomes[place] = msgspec.structs.replace(outcomes[place], **changes)
    return outcomes


@pytest.mark.parametrize(
    "settlements",
    [
        pytest.param([], id="nothing"),
        pytest.param([Settlement(UNDER, [])], id="no outcomes"),
        pytest.param([Settlement(UNDER, but(verdict=Done("1")))], id="a result"),
        pytest.param([Settlement(UNDER, but(verdict=Done(result_lost="why")))], id="a lost one"),
        pytest.param([Settlement(UNDER, but(verdict=Retry(1, "boom")))], id="a retry"),
        pytest.param([Settlement(UNDER, but(verdict=Bury("boom")))], id="a bury"),
        pytest.param([Settlement(UNDER, but(verdict=Release()))], id="a release"),
        pytest.param([Settlement(UNDER, but(seconds=float("nan")))], id="no duration"),
        pytest.param([Settlement(UNDER, but(seconds=-1.0))], id="a negative duration"),
        pytest.param([Settlement(UNDER, but(job=leased(2)))], id="a position twice"),
        pytest.param([Settlement(UNDER, but(job=leased(4)))], id="a gap"),
        pytest.param([settlement(lease(first=3), 2, 4)], id="before the lease"),
        pytest.param([settlement(lease(last=3), 2, 4)], id="beyond the lease"),
        pytest.param([settlement(lease(), 2, 4)], id="a part of the lease"),
        pytest.param([settlement(lease(lane=None, last=1), 1, 1)], id="from parked"),
        pytest.param([settlement(lease(lane=4, last=1), 1, 1)] * 2, id="one lease twice"),
        pytest.param(
            [settlement(lease(lane=bounds.STORED_MAX + 1, last=1), 1, 1)],
            id="a lane no store can have",
        ),
    ],
)
def test_whatever_says_more_asks_for_a_closer_look(settlements: list[Settlement]) -> None:
    assert done_runs(settlements) is None
    assert done_runs([PLAIN, *settlements]) is None or settlements == []


VERDICTS = some.sampled_from([Done(), Done(), Done(), Done("1"), Release()])


@given(
    some.lists(
        some.tuples(
            some.sampled_from(
                [lease(last=2), lease(lane=2, key=None, last=2), lease(lane=3, last=1), lease()]
            ),
            some.lists(some.tuples(some.integers(1, 3), VERDICTS), max_size=3),
        ),
        max_size=4,
    )
)
def test_what_is_seen_at_a_glance_is_what_a_closer_look_finds(
    drawn: list[tuple[Lease, list[tuple[int, Verdict]]]],
) -> None:
    settlements = [
        Settlement(under, [Outcome(leased(place), verdict, 0.25) for place, verdict in said])
        for under, said in drawn
    ]
    seen = done_runs(settlements)
    if seen is None:
        return
    closely: list[tuple[int, int, int, int]] = []
    for one in gathered(settlements):
        check_settlement(one)
        assert one.lease.lane is not None
        closely.extend((5, one.lease.lane, *run) for run in done_ranges(one))
    assert sorted(seen.open + seen.keyed) == sorted(closely)
    assert seen.tallies == tallies(settlements)

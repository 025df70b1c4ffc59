"""Settlements: what a lease can carry, and how outcomes are counted and described."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as some

from inturn.model import bounds
from inturn.model.errors import InvalidPayload, LeaseLost, OutOfBounds, OutOfOrder
from inturn.model.ids import new_id
from inturn.model.job import LeasedJob
from inturn.model.lease import Lease
from inturn.model.worker import DURATION_BOUNDS_SECONDS
from inturn.policy.settlement import (
    Outcome,
    Settlement,
    check_settlement,
    done_ranges,
    error_text,
)
from inturn.policy.tally import tallies
from inturn.policy.verdict import Bury, Done, Release, Retry, Verdict

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAILED: tuple[Verdict, ...] = (Retry(1, "boom"), Bury("hopeless"), Release())


def lease(
    *,
    queue: str = "q",
    key: str | None = "a",
    lane: int | None = 1,
    first: int = 1,
    last: int = 9,
) -> Lease:
    return Lease(token=5, queue=queue, lane=lane, key=key, first=first, last=last, until=NOW)


def leased(position: int, kind: str = "k", queue: str = "q") -> LeasedJob:
    return LeasedJob(
        id=new_id(),
        queue=queue,
        key=None,
        kind=kind,
        payload="null",
        priority=0,
        round=0,
        attempts_max=5,
        timeout_seconds=None,
        enqueued_at=NOW,
        position=position,
        attempt=1,
    )


def outcomes(*said: tuple[int, Verdict]) -> list[Outcome]:
    return [Outcome(leased(position), verdict) for position, verdict in said]


@pytest.mark.parametrize("positions", [(2, 1), (1, 1), (1, 2, 1), (0,), (-1,)])
@pytest.mark.parametrize("key", [None, "a"])
def test_positions_come_once_each_and_in_order(positions: tuple[int, ...], key: str | None) -> None:
    said = outcomes(*((position, Done()) for position in positions))
    with pytest.raises(OutOfOrder, match="position"):
        check_settlement(Settlement(lease(key=key), said))


def test_a_position_behind_the_lease_is_lost() -> None:
    with pytest.raises(LeaseLost, match="5"):
        check_settlement(Settlement(lease(last=3), outcomes((4, Done()))))


@pytest.mark.parametrize("first", FAILED)
@pytest.mark.parametrize("second", [Done(), Retry(1, "boom"), Bury("hopeless")])
def test_only_a_release_may_follow_what_was_not_done_in_a_keyed_lane(
    first: Verdict, second: Verdict
) -> None:
    with pytest.raises(OutOfOrder, match="nothing may overtake"):
        check_settlement(Settlement(lease(), outcomes((1, Done()), (2, first), (3, second))))
    check_settlement(Settlement(lease(), outcomes((1, Done()), (2, first), (3, Release()))))
    # Where no order is promised, anything may follow anything.
    check_settlement(Settlement(lease(key=None), outcomes((1, first), (2, second))))


def test_a_keyed_job_that_was_parked_is_alone_and_overtakes_no_one() -> None:
    alone = lease(lane=None, first=1, last=1)
    for verdict in (Done(), *FAILED):
        check_settlement(Settlement(alone, outcomes((1, verdict))))


@pytest.mark.parametrize(
    ("verdict", "error"),
    [
        (Done("nonsense"), InvalidPayload),
        (Done("1", -1.0), OutOfBounds),
        (Done("1", float("nan")), OutOfBounds),
        (Retry(-1, "boom"), OutOfBounds),
        (Retry(float("inf"), "boom"), OutOfBounds),
        (Retry(bounds.DELAY_SECONDS_MAX * 2, "boom"), OutOfBounds),
    ],
)
def test_a_verdict_that_cannot_be_kept_is_refused(verdict: Verdict, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_settlement(Settlement(lease(), outcomes((1, verdict))))


@given(some.sets(some.integers(1, 30)), some.sets(some.integers(1, 30)))
def test_ranges_of_done_positions_are_whole_and_never_touch(
    done: set[int], failed: set[int]
) -> None:
    said = [
        (position, Done() if position in done else Bury("hopeless"))
        for position in sorted(done | failed)
    ]
    ranges = done_ranges(Settlement(lease(key=None, last=30), outcomes(*said)))
    covered = [position for first, last in ranges for position in range(first, last + 1)]
    assert covered == sorted(done)
    for (_, last), (first, _) in itertools.pairwise(ranges):
        assert last + 1 < first


def test_what_is_settled_is_counted_per_queue_and_kind() -> None:
    said = [
        Outcome(leased(1, "mail"), Done(), 0.5),
        Outcome(leased(2, "mail"), Retry(1, "boom"), 0.002),
        Outcome(leased(3, "mail"), Bury("hopeless"), 1_000.0),
        Outcome(leased(4, "mail"), Release(), 5.0),
        Outcome(leased(5, "push"), Done(), 0.0),
        Outcome(leased(6, "mail", queue="p"), Done(), 1.0),
    ]
    counted = tallies(
        [
            Settlement(lease(key=None), said[:3]),
            Settlement(lease(), said[3:5]),
            Settlement(lease(queue="p"), said[5:]),
        ]
    )
    assert [(one.queue, one.kind) for one in counted] == [
        ("p", "mail"),
        ("q", "mail"),
        ("q", "push"),
    ]
    mail = counted[1]
    assert (mail.done, mail.retried, mail.buried, mail.released) == (1, 1, 1, 1)
    assert mail.seconds_sum == pytest.approx(1_000.502)
    assert sum(mail.durations) == 3
    assert mail.durations[-1] == 1


@pytest.mark.parametrize("place", range(len(DURATION_BOUNDS_SECONDS)))
def test_a_duration_at_a_bound_belongs_below_it(place: int) -> None:
    bound = DURATION_BOUNDS_SECONDS[place]
    for seconds, expected in ((bound, place), (bound * 1.0001, place + 1)):
        [tally] = tallies([Settlement(lease(), [Outcome(leased(1), Done(), seconds)])])
        assert tally.durations.index(1) == expected


@given(some.text(max_size=200))
def test_an_error_is_text_that_every_store_can_keep(text: str) -> None:
    kept = error_text(Bury(text))
    assert "\x00" not in kept
    kept.encode()
    if "\x00" not in text and text.isascii():
        assert kept == text


def test_an_endless_error_is_cut_and_says_so() -> None:
    assert error_text(Retry(1, "x" * bounds.ERROR_CHARS_MAX)) == "x" * bounds.ERROR_CHARS_MAX
    cut = error_text(Retry(1, "x" * (bounds.ERROR_CHARS_MAX + 1)))
    assert len(cut) == bounds.ERROR_CHARS_MAX
    assert cut.endswith("x…")

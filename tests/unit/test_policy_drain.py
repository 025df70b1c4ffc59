"""When to come back to a queue that is full."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from inturn.model import bounds
from inturn.policy.limits import come_back_seconds

LOW, HIGH = bounds.COME_BACK_SECONDS_MIN, bounds.COME_BACK_SECONDS_MAX


def test_it_is_as_long_as_the_rest_takes_to_drain() -> None:
    assert come_back_seconds(5, settled=20, within_seconds=120.0) == 30
    assert come_back_seconds(6, settled=7, within_seconds=60.0) == 52  # never too early


def test_a_queue_that_stands_still_gives_the_default() -> None:
    assert come_back_seconds(5, settled=0, within_seconds=120.0) == bounds.COME_BACK_SECONDS_DEFAULT


def test_a_minute_that_has_just_begun_counts_as_a_second() -> None:
    assert come_back_seconds(100, settled=10, within_seconds=0.0) == 10


@given(some.integers(1, 10**12), some.integers(0, 10**12), some.floats(0.0, 1e6))
def test_it_is_always_within_its_bounds(excess: int, settled: int, within: float) -> None:
    assert LOW <= come_back_seconds(excess, settled=settled, within_seconds=within) <= HIGH

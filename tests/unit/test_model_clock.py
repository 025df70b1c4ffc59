"""Clocks: the machine's, and one that stands still until it is moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from inturn.model.clock import ManualClock, SystemClock


def test_the_machines_clock_tells_the_time_with_its_zone() -> None:
    before = datetime.now(UTC)
    told = SystemClock().now()
    assert before <= told <= datetime.now(UTC)
    assert told.utcoffset() == timedelta(0)


def test_a_clock_moved_by_hand_stands_still_otherwise() -> None:
    clock = ManualClock()
    start = clock.now()
    assert clock.now() is start
    assert start.tzinfo is UTC
    assert clock.advance(1.5) == clock.now() == start + timedelta(seconds=1.5)
    assert clock.advance(-2) == start - timedelta(seconds=0.5)


def test_a_clock_starts_where_it_is_told() -> None:
    start = datetime(2031, 5, 6, tzinfo=UTC)
    assert ManualClock(start).now() == start

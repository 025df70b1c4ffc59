"""When a schedule fires, through missed firings and changes of summer time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as some

import inturn
from inturn.poll.rule import CATCH_UP_MAX, CatchUp, Cron, Every, Rule, due

AUCKLAND = ZoneInfo("Pacific/Auckland")
NOON = datetime(2026, 3, 31, 12, tzinfo=UTC)  # summer time ends in Auckland on 5 April
RULES = [Every(60.0), Every(1.5), Cron("*/5 * * * *"), Cron("30 2 * * *", "Pacific/Auckland")]


def local(rule: Rule, after: datetime, count: int) -> list[str]:
    """Return the next times of a rule, as a clock in Auckland shows them."""
    times = []
    for _ in range(count):
        after = rule.next_after(after)
        times.append(f"{after.astimezone(AUCKLAND):%d %H:%M %z}")
    return times


def test_an_interval_is_counted_from_one_firing_to_the_next() -> None:
    late = NOON + timedelta(seconds=61)
    assert due(Every(60.0), NOON, NOON, CatchUp.ONCE).next_at == NOON + timedelta(seconds=60)
    assert due(Every(60.0), NOON, late, CatchUp.ONCE).next_at == NOON + timedelta(seconds=120)


def test_an_hour_that_summer_time_skips_is_made_up_for_and_one_that_comes_twice_fires_once() -> (
    None
):
    """(B-05)"""
    daily, halves = Cron("30 2 * * *", "Pacific/Auckland"), Cron("*/30 * * * *", "Pacific/Auckland")
    spring = datetime(2026, 9, 26, 3, tzinfo=AUCKLAND)
    assert local(daily, spring, 2) == ["27 03:00 +1300", "28 02:30 +1300"]
    assert local(halves, datetime(2026, 9, 27, 1, 30, tzinfo=AUCKLAND), 2) == [
        "27 03:00 +1300",
        "27 03:30 +1300",
    ]
    autumn = datetime(2027, 4, 3, 3, tzinfo=AUCKLAND)
    assert local(daily, autumn, 2) == ["04 02:30 +1300", "05 02:30 +1200"]
    assert local(halves, datetime(2027, 4, 4, 2, tzinfo=AUCKLAND), 3) == [
        "04 02:30 +1300",
        "04 02:00 +1200",
        "04 02:30 +1200",
    ]


@pytest.mark.parametrize(
    ("catch_up", "fired"), [(CatchUp.ONCE, [15]), (CatchUp.SKIP, []), (CatchUp.ALL, [0, 5, 10, 15])]
)
def test_missed_firings_are_made_up_for_as_the_schedule_says(
    catch_up: CatchUp, fired: list[int]
) -> None:
    now = NOON + timedelta(minutes=17)
    found = due(Cron("*/5 * * * *"), NOON, now, catch_up)
    assert [(time - NOON) // timedelta(minutes=1) for time in found.times] == fired
    assert found.next_at == NOON + timedelta(minutes=20)


@given(
    some.sampled_from(RULES),
    some.sampled_from(CatchUp),
    some.lists(some.integers(0, 200_000), min_size=1, max_size=8),
)
def test_no_time_fires_twice_and_with_all_none_is_left_out(
    rule: Rule, catch_up: CatchUp, pauses: list[int]
) -> None:
    """(B-05)"""
    now, next_at = NOON, rule.next_after(NOON)
    fired: list[datetime] = []
    for pause in pauses:
        now += timedelta(seconds=pause)
        for _ in range(200_000 // CATCH_UP_MAX + 1):
            found = due(rule, next_at, now, catch_up)
            fired += found.times
            if found.next_at == next_at or found.next_at > now:
                next_at = found.next_at
                break
            next_at = found.next_at
        assert next_at > now
    assert fired == sorted(set(fired))
    assert not [time for time in fired if time > now]
    if catch_up is CatchUp.ALL:
        expected, time = [], rule.next_after(NOON)
        while time <= now:
            expected.append(time)
            time = rule.next_after(time)
        assert fired == expected


def test_what_is_no_rule_is_refused_where_it_is_written() -> None:
    with pytest.raises(inturn.BadInput, match="Bad minute"):
        Cron("61 * * * *")
    with pytest.raises(inturn.BadInput, match="no time zone 'Mars'"):
        Cron("* * * * *", "Mars")
    with pytest.raises(inturn.BadInput, match="no cron expression"):
        Cron("0 0 30 2 *")
    with pytest.raises(inturn.BadInput, match=r"every, in seconds, is 0\.0; it may be 1 to"):
        Every(0.0)

"""A process that died is started again, later each time it dies young."""

from __future__ import annotations

from inturn.policy.restart import (
    RESTART_SECONDS_MAX,
    RESTART_SECONDS_MIN,
    YOUNG_SECONDS,
    died_young,
    restart_seconds,
)


def test_one_that_lived_is_started_again_at_once() -> None:
    assert restart_seconds(died_young(YOUNG_SECONDS, 5)) == RESTART_SECONDS_MIN


def test_one_that_keeps_dying_young_waits_twice_as_long_each_time() -> None:
    deaths, waits = 0, []
    for _ in range(4):
        deaths = died_young(0.1, deaths)
        waits.append(restart_seconds(deaths) / RESTART_SECONDS_MIN)
    assert waits == [1, 2, 4, 8]


def test_no_wait_is_longer_than_the_longest() -> None:
    assert restart_seconds(1_000_000) == RESTART_SECONDS_MAX

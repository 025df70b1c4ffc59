"""Signals: how many times a worker was told to stop."""

from __future__ import annotations

from signal import SIGINT, SIGTERM

from inturn.worker.signals import SAME_SECONDS, Signalled


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


def test_a_signal_that_comes_twice_within_a_moment_is_one() -> None:
    clock = Hand()
    signalled = Signalled(clock)
    assert signalled.count(SIGTERM) == 1
    clock.seconds += 0.9 * SAME_SECONDS
    assert signalled.count(SIGTERM) == 0
    clock.seconds += 0.2 * SAME_SECONDS
    assert signalled.count(SIGTERM) == 2, "a moment after the first, whatever came between"
    assert signalled.count(SIGTERM) == 0, "so is the second"
    clock.seconds += SAME_SECONDS
    assert signalled.count(SIGTERM) == 3


def test_another_signal_counts_at_once_and_neither_hides_the_other() -> None:
    signalled = Signalled(Hand())
    assert [signalled.count(one) for one in (SIGTERM, SIGINT, SIGTERM, SIGINT)] == [1, 2, 0, 0]

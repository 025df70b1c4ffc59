"""Signals: how many times a worker was told to stop."""

from __future__ import annotations

from signal import SIGHUP, SIGINT, SIGTERM, Signals

import pytest

from inturn.worker.signals import SAME_SECONDS, Signalled


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize("number", [SIGTERM, SIGINT, SIGHUP])
def test_a_signal_that_comes_twice_within_a_moment_is_one(number: Signals) -> None:
    clock, moment = Hand(), SAME_SECONDS[number]
    signalled = Signalled(clock)
    assert signalled.count(number) == 1
    clock.seconds += 0.9 * moment
    assert signalled.count(number) == 0
    clock.seconds += 0.2 * moment
    assert signalled.count(number) == 2, "a moment after the first, whatever came between"
    assert signalled.count(number) == 0, "so is the second"
    clock.seconds += moment
    assert signalled.count(number) == 3


def test_ctrl_c_counts_again_as_quickly_as_a_person_presses_it() -> None:
    clock = Hand()
    signalled = Signalled(clock)
    assert signalled.count(SIGINT) == 1
    clock.seconds += 0.15
    assert signalled.count(SIGINT) == 2


def test_another_signal_counts_at_once_and_neither_hides_the_other() -> None:
    signalled = Signalled(Hand())
    assert [signalled.count(one) for one in (SIGTERM, SIGINT, SIGTERM, SIGINT)] == [1, 2, 0, 0]


def test_sighup_within_a_moment_of_sigterm_is_the_same_one() -> None:
    """As systemd sends them, asked to (``SendSIGHUP=yes``)."""
    clock = Hand()
    signalled = Signalled(clock)
    assert [signalled.count(one) for one in (SIGTERM, SIGHUP, SIGHUP, SIGTERM)] == [1, 0, 0, 0]
    clock.seconds += SAME_SECONDS[SIGHUP]
    assert signalled.count(SIGHUP) == 2

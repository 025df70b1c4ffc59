"""Signals: how many times a worker was told to stop."""

from __future__ import annotations

from signal import SIGHUP, SIGINT, SIGTERM, Signals

import pytest

from inturn.worker.stop_signals import SAME_SECONDS, SignalCount


@pytest.mark.parametrize("number", [SIGTERM, SIGINT, SIGHUP])
def test_a_signal_that_comes_twice_within_a_moment_is_one(number: Signals) -> None:
    count, moment = SignalCount(), SAME_SECONDS[number]
    at = 1_000.0
    assert count.add(number, at) == 1
    assert count.add(number, at + 0.9 * moment) == 0, "as timeout sends it"
    assert count.add(number, at + 1.1 * moment) == 2
    assert count.add(number, at + 2.2 * moment) == 3


def test_another_signal_counts_at_once_and_sighup_is_the_same_as_sigterm() -> None:
    """As systemd sends them, asked to (``SendSIGHUP=yes``)."""
    count = SignalCount()
    found = [count.add(one, 0.0) for one in (SIGTERM, SIGINT, SIGTERM, SIGHUP, SIGINT)]
    assert found == [1, 2, 0, 0, 0]

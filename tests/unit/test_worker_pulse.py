"""A worker's pulse: who is well, for how long silence is borne, when a store came back."""

from __future__ import annotations

import pytest

from inturn.worker.pulse import PATIENCE_SECONDS_MAX, PATIENCE_SECONDS_MIN, Pulse


def well(lease_seconds: float = 30.0) -> Pulse:
    pulse = Pulse(lease_seconds)
    pulse.turn(0.0)
    pulse.beat(0.0)
    return pulse


def test_a_worker_that_has_not_begun_is_not_well() -> None:
    pulse = Pulse(30.0)
    assert not pulse.health(0.0).healthy
    pulse.turn(0.0)
    assert not pulse.health(0.0).healthy
    pulse.beat(0.0)
    assert pulse.health(0.0).healthy


def test_silence_is_borne_for_a_lease() -> None:
    pulse = well()
    assert pulse.health(30.0).healthy
    assert not pulse.health(31.0).healthy


@pytest.mark.parametrize(
    ("lease_seconds", "patience_seconds"),
    [(0.5, PATIENCE_SECONDS_MIN), (20.0, 20.0), (86_400.0, PATIENCE_SECONDS_MAX)],
)
def test_patience_has_bounds(lease_seconds: float, patience_seconds: float) -> None:
    assert Pulse(lease_seconds).patience_seconds == patience_seconds


def test_a_loop_that_does_not_turn_is_named() -> None:
    pulse = well()
    pulse.beat(100.0)
    assert pulse.health(100.0).why == "its loop has not turned for 100 s"


def test_a_heart_that_does_not_beat_is_named() -> None:
    pulse = well()
    pulse.turn(100.0)
    assert pulse.health(100.0).why == "the store has not taken a heartbeat for 100 s"


def test_a_store_that_only_takes_heartbeats_is_named() -> None:
    pulse = well()
    pulse.trouble("settling", 60.0)
    pulse.turn(100.0)
    pulse.beat(100.0)
    assert pulse.health(80.0).healthy
    assert pulse.health(100.0).why == "the store has not done its work for 40 s"
    pulse.answer("settling", 101.0)
    assert pulse.health(101.0).healthy


def test_a_trouble_lasts_from_the_last_answer_to_the_next() -> None:
    pulse = well()
    assert pulse.answer("beating", 92.0) is None
    assert pulse.trouble("settling", 95.6), "told when the silence has lasted for a while"
    assert pulse.answer("settling", 100.0) == 8.0
    assert pulse.trouble("settling", 103.0)
    assert pulse.answer("beating", 104.0) is None
    assert pulse.answer("settling", 105.0) == 5.0


def test_a_store_that_never_answered_is_silent_from_the_first_trouble_on() -> None:
    pulse = well()
    assert pulse.trouble("beating", 10.0)
    assert pulse.answer("beating", 12.0) == 2.0


def test_a_trouble_is_told_once_and_ends_when_everyone_was_answered() -> None:
    pulse = well()
    assert pulse.answer("beating", 5.0) is None
    assert pulse.trouble("beating", 10.0)
    assert not pulse.trouble("beating", 11.0)
    assert not pulse.trouble("settling", 12.0)
    assert pulse.answer("beating", 13.0) is None
    assert pulse.answer("waiting", 13.0) is None
    assert pulse.answer("settling", 15.0) == 10.0
    assert pulse.trouble("beating", 20.0)

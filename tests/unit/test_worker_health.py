"""A worker's health: for how long silence is borne, and what is said when a store goes or comes."""

from __future__ import annotations

import pytest

from inturn.model.errors import StoreBusy
from inturn.model.worker_events import StoreBack, StoreTroubled, WorkerEvent
from inturn.worker import health as health_module
from inturn.worker.health import PATIENCE_SECONDS_MAX, PATIENCE_SECONDS_MIN, WorkerHealth
from inturn.worker.record import Record


class World:
    """A worker's health by a clock that is moved by hand, and what it told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.told = 0.0, list[WorkerEvent]()
        monkeypatch.setattr(health_module, "monotonic", lambda: self.now)

    def health(self, lease_seconds: float = 30.0) -> WorkerHealth:
        return WorkerHealth("w1", Record("w1", [self.told.append]), lease_seconds=lease_seconds)

    def well(self) -> WorkerHealth:
        health = self.health()
        health.turned()
        health.beaten()
        return health


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_it_is_well_when_its_loop_turns_and_its_heart_has_beaten(world: World) -> None:
    health = world.health()
    assert not health.read().healthy
    health.turned()
    assert not health.read().healthy
    health.beaten()
    assert health.read().healthy


@pytest.mark.parametrize(
    ("lease_seconds", "patience_seconds"),
    [(0.1, PATIENCE_SECONDS_MIN), (30.0, 30.0), (3_600.0, PATIENCE_SECONDS_MAX)],
)
def test_it_bears_with_silence_for_a_lease_within_bounds(
    world: World, lease_seconds: float, patience_seconds: float
) -> None:
    assert world.health(lease_seconds).patience_seconds == patience_seconds


def test_it_says_whether_the_loop_or_the_store_is_silent(world: World) -> None:
    health = world.well()
    world.now = 30.0
    assert health.read().healthy
    world.now = 100.0
    health.beaten()
    assert health.read().why == "its loop has not turned for 100 s"
    health.turned()
    world.now = 200.0
    health.turned()
    assert health.read().why == "the store has not taken a heartbeat for 100 s"


def test_steps_that_fail_while_the_heart_beats_are_borne_with_for_as_long(world: World) -> None:
    health = world.well()
    health.failed("step", StoreBusy("no"))
    for world.now, is_well in ((30.0, True), (40.0, False)):
        health.turned()
        health.beaten()
        assert health.read().healthy == is_well
    assert health.read().why == "the store has not done its work for 40 s"
    health.answered("step")
    assert health.read().healthy


def test_a_store_that_goes_and_comes_is_told_of_once_whoever_noticed(world: World) -> None:
    health = world.well()
    world.now = 10.0
    health.failed("heartbeat", StoreBusy("no"))
    health.failed("heartbeat", StoreBusy("no"))
    health.failed("step", StoreBusy("nor here"))
    world.now = 13.0
    health.answered("heartbeat")
    world.now = 15.0
    health.answered("step")
    health.answered("step")
    assert world.told == [
        StoreTroubled(worker="w1", error="no"),
        StoreBack(worker="w1", seconds=15.0),
    ], "it was away since it was last heard of"

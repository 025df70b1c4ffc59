"""The heartbeat: how often it beats and sweeps, and when it had better not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from inturn.model import bounds
from inturn.model.errors import StoreUnavailable
from inturn.model.lane import QueueSettings
from inturn.model.lease import Lease, Reclaimed
from inturn.model.worker import WorkerView
from inturn.queue.app import App
from inturn.worker import heartbeat as heartbeat_module
from inturn.worker.health import WorkerHealth
from inturn.worker.heartbeat import Heartbeat
from inturn.worker.record import Record

LEASE: Any = Lease(1, "default", None, None, 1, 1, None, alone=False)  # type: ignore[arg-type]


class World:
    """A store, a worker with one lease, and a clock that each answer moves on."""

    def __init__(self, *, lease_seconds: float = 30.0, sweep_seconds: float = 10.0) -> None:
        self.now = 1_000.0
        self.answer_seconds = 0.0
        self.sweeps_at: list[float] = []
        self.kept: list[tuple[float, float]] = []
        # As a worker
        self.name, self.queues, self.kinds = "w1", ("default",), ("work",)
        self.lease_seconds, self.sweep_seconds = lease_seconds, sweep_seconds
        self.in_hand = 1
        self.inbox: list[object] = []
        self.runs = self
        self.app = App("sqlite:///:memory:")
        self.health = WorkerHealth("w1", Record("w1"), lease_seconds=lease_seconds)

    # As a store

    async def open(self) -> None: ...

    async def workers(self) -> list[WorkerView]:
        return []

    async def extend(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Lease]:
        self.now += self.answer_seconds
        return []

    async def reclaim(self, *, gone: Sequence[str] | None = None) -> Reclaimed:
        if gone is None:
            self.sweeps_at.append(self.now)
        return Reclaimed()

    async def declare(self, queues: Mapping[str, object], *, missing_only: bool) -> None: ...

    async def settings(self) -> dict[str, QueueSettings]:
        return {}

    async def beat(self, view: WorkerView) -> None: ...

    # As the leases of a worker

    def leases(self) -> list[Lease]:
        return [LEASE]

    def keep(self, leases: Iterable[Lease], asked_at: float, until: float) -> None:
        self.kept.append((asked_at, until))

    async def beat_for(self, heartbeat: Heartbeat, seconds: float) -> None:
        ends_at = self.now + seconds
        while self.now < ends_at:
            await heartbeat.step()
            self.now += heartbeat.pause_seconds


@pytest.fixture(autouse=True)
def lease_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count leases by the world that was made last."""
    monkeypatch.setattr(heartbeat_module, "lease_now", lambda: clocks[-1].now)


clocks: list[World] = []


def heartbeat_in(world: Any) -> Heartbeat:
    clocks[:] = [world]
    return Heartbeat(world, world)


@pytest.mark.parametrize(
    ("lease_seconds", "sweep_seconds", "pause_seconds"),
    [
        (bounds.LEASE_SECONDS_DEFAULT, 10.0, 5.0),
        (3_600.0, 60.0, 5.0),
        (6.0, 10.0, 2.0),
        (30.0, 1.0, 1.0),
    ],
)
def test_a_heart_beats_every_5_s_and_three_times_for_each_lease_at_least(
    lease_seconds: float, sweep_seconds: float, pause_seconds: float
) -> None:
    heartbeat = heartbeat_in(World(lease_seconds=lease_seconds, sweep_seconds=sweep_seconds))
    assert heartbeat.pause_seconds == pause_seconds


async def test_a_lease_is_prolonged_from_the_moment_the_store_was_asked() -> None:
    world = World()
    world.answer_seconds = 7.0
    await heartbeat_in(world).step()
    assert world.kept == [(1_000.0, 1_030.0)]


async def test_a_step_that_was_held_up_does_not_sweep_and_the_next_does() -> None:
    """It might take back its own worker's leases, which have run out while it stood still."""
    world = World()
    heartbeat = heartbeat_in(world)
    world.answer_seconds = 15.0
    await heartbeat.step()
    assert world.sweeps_at == []
    world.answer_seconds = 14.9
    await heartbeat.step()
    assert len(world.sweeps_at) == 1


@pytest.mark.parametrize("sweep_seconds", [10.0, 1_000.0])
async def test_two_workers_that_begin_at_one_moment_do_not_sweep_at_one_moment(
    sweep_seconds: float,
) -> None:
    """Each comes within a quarter of its time, though that may be between two beats."""
    sweeps: list[list[float]] = []
    for _ in range(2):
        world = World(sweep_seconds=sweep_seconds)
        await world.beat_for(heartbeat_in(world), 20 * sweep_seconds)
        sweeps.append(world.sweeps_at)
        parts = [(later - one) / sweep_seconds for one, later in pairwise(world.sweeps_at)]
        assert all(part + 1e-9 >= 0.75 and part - 1e-9 <= 1.25 for part in parts)
    assert sweeps[0] != sweeps[1]


async def test_a_store_that_is_away_is_asked_once_a_beat_however_soon_a_sweep_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    heartbeat = heartbeat_in(world)
    heartbeat._random = Random(0)
    monkeypatch.setattr(heartbeat._random, "random", lambda: 0.5002)  # a sweep after 10.002 s
    for _ in range(3):
        await heartbeat.step()

    async def fail(leases: object, *, lease_seconds: float) -> list[Lease]:
        raise StoreUnavailable("it is away")

    monkeypatch.setattr(world, "extend", fail)
    await heartbeat.step()
    for _ in range(10):
        assert heartbeat.pause_seconds == 5.0
        await heartbeat.step()

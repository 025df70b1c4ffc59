"""The heartbeat: how often it beats."""

from __future__ import annotations

from typing import Any

import pytest

from inturn.model import bounds
from inturn.worker.heartbeat import Heartbeat

NOBODY: Any = None


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
    heartbeat = Heartbeat(NOBODY, NOBODY, lease_seconds=lease_seconds, sweep_seconds=sweep_seconds)
    assert heartbeat.pause_seconds == pause_seconds

"""Schedules and sources with real processes, which are killed."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from inturn.poll.schedules import schedules
from tests.processes.conftest import empty_file, place, sqlite_url
from tests.processes.support import ROOT, Place, until

__all__ = ["empty_file", "place", "sqlite_url"]

SCHEDULED = "tests.poll.scheduled:app"
SEEDS = 5


def fired(place: Place) -> tuple[datetime, int]:
    """Return a schedule's next time, and how many jobs it has submitted until then."""
    while True:
        [before] = place.store(schedules)
        count = len(place.states())
        [after] = place.store(schedules)
        if before.next_at == after.next_at:
            return after.next_at, count


def test_a_firing_is_one_job_with_two_workers_of_which_one_is_killed(place: Place) -> None:
    """(B-05)"""
    first, second = (place.start(target=SCHEDULED) for _ in range(2))
    until(lambda: place.store(schedules))
    began_at, before = fired(place)
    until(lambda: len(place.states()) >= before + 2)
    first.kill()
    count = len(place.states())
    until(lambda: len(place.states()) >= count + 2)
    second.kill()
    ended_at, after = fired(place)
    assert after - before == (ended_at - began_at).total_seconds()


@pytest.mark.medium  # a sample of `make chaos`, for `make test`
@pytest.mark.parametrize("first", range(0, 20, SEEDS))
def test_killed_at_any_write_of_a_page_a_source_is_followed_and_each_effect_happens_once(
    first: int, url: str, tmp_path: Path
) -> None:
    """(001-19)"""
    url += "?synchronous=normal" if url.startswith("sqlite") else ""
    seeds = [f"--first={first}", f"--seeds={SEEDS}"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.poll.killed", "--url", url, *seeds],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stdout

"""Another worker of the same name: told of if it may be alive."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from inturn.model.worker import WorkerView
from inturn.worker.namesake import SEEN_SECONDS_MAX, namesake

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HERE = socket.gethostname()


def view(pid: int, *, host: str = HERE, seconds: float = 2.0, name: str = "w1") -> WorkerView:
    seen_at = NOW - timedelta(seconds=seconds)
    return WorkerView(id=name, host=host, pid=pid, version="1", seen_at=seen_at)


@pytest.fixture(scope="module")
def gone() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_worker_that_lives_here_or_may_live_elsewhere_is_a_namesake(gone: int) -> None:
    said = f"process {os.getppid()} on {HERE}, seen 2 s ago"
    assert namesake("w1", [view(1, name="w2"), view(os.getppid())], NOW) == said
    elsewhere = view(gone, host="elsewhere", seconds=-0.1)
    assert namesake("w1", [elsewhere], NOW) == f"process {gone} on elsewhere, seen 0 s ago"


def test_one_that_has_ended_or_was_not_seen_lately_is_none(gone: int) -> None:
    long_ago = view(os.getppid(), seconds=SEEN_SECONDS_MAX + 1)
    itself, other = view(os.getpid()), view(os.getppid(), name="w2")
    assert namesake("w1", [view(gone), long_ago, itself, other], NOW) is None

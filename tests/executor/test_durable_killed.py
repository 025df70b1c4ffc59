"""A process with a durable executor is killed: the next one goes on where it was, in order.

Promise E6 of ARCHITECTURE.md.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.executor.durable_process import KEYS

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 100.0


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        # It is the process that is killed, and the disk may be busy.
        return f"sqlite:///{tmp_path / 'work.db'}?synchronous=normal"
    found: str = request.getfixturevalue("migrated_url")
    return found


def start(url: str, ledger: Path, first: int, last: int, output: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.executor.durable_process"]
    with output.open("wb") as written:
        return subprocess.Popen(
            [*command, url, str(ledger), str(first), str(last)], stdout=written, cwd=ROOT
        )


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def test_killed_in_the_middle_nothing_is_lost_and_order_holds(url: str, tmp_path: Path) -> None:
    """(004-22)"""
    ledger, ends_at = tmp_path / "ledger", time.monotonic() + SECONDS_MAX
    said = [tmp_path / f"said {turn}" for turn in range(3)]
    for turn in range(2):
        running = start(url, ledger, turn * 1_000, turn * 1_000 + 1_000, said[turn])
        while len(lines(ledger)) < (turn + 1) * 120 and time.monotonic() < ends_at:
            assert running.poll() is None
            time.sleep(0.01)
        running.kill()
        running.wait()
    last = start(url, ledger, 2_000, 2_005, said[2])
    assert last.wait(timeout=SECONDS_MAX) == 0
    assert lines(said[2])[-1] == "all done"

    accepted = {line for path in said for line in lines(path) if line != "all done"}
    book = [Entry(*line.split()) for line in lines(ledger)]
    ran = {f"{entry.key} {entry.number}" for entry in book if entry.what == "ends"}
    assert accepted <= ran, "what was accepted did not run to its end"
    for key in KEYS:
        check_line([entry for entry in book if entry.key == key])


class Entry(NamedTuple):
    """A line of the ledger."""

    key: str
    number: str
    process: str
    what: str


def check_line(entries: list[Entry]) -> None:
    """Check that the jobs of one key ran one at a time, and in the order they were accepted."""
    running: Entry | None = None
    for entry in entries:
        if entry.what == "ends":
            assert running == entry._replace(what="begins"), "it was not the one that ran"
            running = None
            continue
        is_killed = running is not None and running.process != entry.process
        assert running is None or is_killed, f"{entry} while {running} ran"
        running = entry
    numbers = [int(entry.number) for entry in entries if entry.what == "begins"]
    # A job that ran when its process was killed runs again, and so do those whose end was not in
    # the store yet: what comes next is never behind what came last, save for those.
    backwards = [(a, b) for a, b in itertools.pairwise(numbers) if b <= a]
    assert len(backwards) <= 2, "once for each kill"
    firsts = list(dict.fromkeys(numbers))
    assert firsts == sorted(firsts), "a job ran before one that was accepted before it"

"""``inturn demo`` shows what really happened, checks it, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from rich.console import Console

from inturn.demo.diary import Diary, Entry, Event
from inturn.demo.screen import Screen
from inturn.demo.summary import Summary, duplicates, order_violations, taken_over
from inturn.model.job import NewJob
from tests.cli.support import INHERITED
from tests.processes.support import children

# The demo with more patience than people have: a busy machine may stand still for a while.
PROGRAM = """
from inturn.cli.main import main
from inturn.demo import crew, day
crew.LEASE_SECONDS = day.LEASE_SECONDS = 12.0
crew.STOP_SECONDS_MAX = 60.0
day.DEMO_SECONDS_MAX = 120.0
main()
"""
COMMAND = (sys.executable, "-c", PROGRAM, "demo")
SECONDS_MAX = 200.0
AS_PROMISED = Summary(
    accepted=23,
    done=23,
    failed=3,
    died=1,
    dead=0,
    killed=1,
    taken_over=1,
    duplicates=0,
    order_violations=0,
    exit_codes=[0, 0],
    check=[],
    seconds=9.5,
)


class Played(NamedTuple):
    """What a demo left with, what it printed, and what was left of its files."""

    code: int
    said: str
    complained: str
    left: list[Path]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """Two demos that were played at once: for people, and for programs."""
    folders = {name: tmp_path_factory.mktemp("demo") for name in ("people", "programs")}
    demos = {
        "people": start(folders["people"]),
        "programs": start(folders["programs"], "--json"),
    }
    ended = {name: demo.communicate(timeout=SECONDS_MAX) for name, demo in demos.items()}
    return {
        name: Played(demos[name].returncode, *ended[name], list(folders[name].iterdir()))
        for name in demos
    }


def start(folder: Path, *options: str, through: Sequence[str] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*through, *COMMAND, *options],
        env={
            **INHERITED,
            "TMPDIR": str(folder),
            "COLUMNS": "100",
            "PYTHONIOENCODING": "utf-8",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def workers_at_work(folder: Path) -> set[int]:
    """The worker processes that wrote into the demo's diary, once there is one."""
    patience = time.monotonic() + 60
    while time.monotonic() < patience:
        for diary in folder.glob("*/diary.jsonl"):
            if workers := {entry.pid for entry in Diary(diary).news()}:
                return workers
        time.sleep(0.01)
    raise TimeoutError("no worker of the demo began a job in 60 s")


def test_the_demo_keeps_every_promise_and_says_so(played: dict[str, Played]) -> None:
    code, said, complained, left = played["people"]
    assert (code, complained) == (0, "")
    for words in (
        "failed: TimeoutError",
        "done, at attempt 2",
        "killed with -9 in the middle of it",
        "takes it over, alone",
        "finds a dead letter, after 2 attempts",
        "retries it: 1 put back",
        "asks for the same again: 0 put back",
        "store.check(): nothing wrong",
        "all as promised",
    ):
        assert words in said
    for customer in ("ada", "ben", "cleo", "dora"):
        assert f"{customer:<5} done in turn: 1 2 3 4" in said
    assert not left


def test_the_demo_gives_its_summary_as_json(played: dict[str, Played]) -> None:
    code, said, complained, left = played["programs"]
    assert (code, complained, left) == (0, "", [])
    summary = json.loads(said)
    del summary["seconds"]
    expected = msgspec.to_builtins(AS_PROMISED) | {"faults": []}
    del expected["seconds"]
    assert summary == expected


@pytest.mark.parametrize(
    ("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_the_demo_stops_cleanly_when_it_is_interrupted(
    tmp_path: Path, stop: signal.Signals, code: int
) -> None:
    demo = start(tmp_path)
    workers = workers_at_work(tmp_path)
    demo.send_signal(stop)
    said, complained = demo.communicate(timeout=SECONDS_MAX)
    assert (demo.returncode, complained) == (code, "")
    assert "Stopped." in said
    assert not list(tmp_path.iterdir())
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


def test_the_workers_of_a_demo_that_is_killed_end_as_well(tmp_path: Path) -> None:
    demo = start(tmp_path)
    workers = workers_at_work(tmp_path)
    others = set(children(demo.pid))
    demo.kill()
    demo.communicate(timeout=SECONDS_MAX)
    patience = time.monotonic() + 60
    while left := [pid for pid in workers | others if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < patience, left
        time.sleep(0.05)


def test_a_demo_that_nohup_started_plays_on_when_the_terminal_is_closed(tmp_path: Path) -> None:
    demo = start(tmp_path, through=("nohup",))
    workers_at_work(tmp_path)
    demo.send_signal(signal.SIGHUP)
    said, _ = demo.communicate(timeout=SECONDS_MAX)
    assert demo.returncode == 0
    assert "all as promised" in said


@pytest.mark.parametrize(
    "change",
    [
        {"done": 22},
        {"accepted": 0, "done": 0},
        {"failed": 2},
        {"died": 0},
        {"dead": 1},
        {"killed": 0},
        {"taken_over": 0},
        {"exit_codes": [0, 1]},
        {"duplicates": 1},
        {"order_violations": 1},
        {"check": ["lane 1 is stranded"]},
    ],
    ids=str,
)
def test_a_promise_that_was_not_kept_is_named(change: dict[str, object]) -> None:
    assert not AS_PROMISED.faults()
    assert len(msgspec.structs.replace(AS_PROMISED, **change).faults()) == 1


FIRST, SECOND = NewJob(kind="k", key="a"), NewJob(kind="k", key="a")
OTHER = NewJob(kind="k", key="b")
LATER = NewJob(kind="k", after=frozenset({FIRST.id}))


def entry(event: Event, job: NewJob, *, token: int = 1, pid: int = 1) -> Entry:
    return Entry(event=event, job=job.id, attempt=1, token=token, pid=pid, at=0.0)


@pytest.mark.parametrize(
    ("ran", "violations"),
    [
        ([FIRST, SECOND, OTHER, LATER], 0),
        ([OTHER, FIRST, LATER, SECOND], 0),
        ([SECOND, FIRST, OTHER, LATER], 1),
        ([LATER, FIRST, SECOND, OTHER], 1),
        ([SECOND, LATER, FIRST], 2),
        ([SECOND], 1),
        ([], 0),
    ],
)
def test_what_overtakes_is_counted(ran: Sequence[NewJob], violations: int) -> None:
    accepted = [FIRST, SECOND, OTHER, LATER]
    entries = [entry(event, job) for job in ran for event in ("started", "done")]
    assert order_violations(accepted, entries) == violations


def test_what_begins_before_the_one_ahead_is_done_overtakes_it() -> None:
    entries = [
        entry("started", FIRST),
        entry("started", SECOND),
        entry("done", FIRST),
        entry("done", SECOND),
    ]
    assert order_violations([FIRST, SECOND], entries) == 1


def test_what_is_left_by_one_process_and_finished_by_another_is_counted() -> None:
    left = entry("started", FIRST, token=1, pid=1)
    again = [entry("started", FIRST, token=2, pid=2), entry("done", FIRST, token=2, pid=2)]
    assert taken_over([left, *again]) == 1
    assert taken_over([left, entry("failed", FIRST, token=1, pid=1), *again]) == 0
    assert taken_over([left]) == 0
    assert duplicates([left, *again]) == 0
    assert duplicates([*again, *again]) == 1


@pytest.mark.parametrize("columns", [60, 80, 96, 140, 400])
def test_what_it_begins_with_fills_the_lines_of_a_terminal_of_any_width(columns: int) -> None:
    console = Console(width=columns, record=True, quiet=False, file=StringIO())
    Screen(console).accepted(15, 7, 3)
    lines = console.export_text().split("\n\n")[1].splitlines()
    words = [line.split() for line in lines]
    for line, after in zip(lines, words[1:], strict=False):
        assert len(line.rstrip()) <= columns < len(f"{line.rstrip()} {after[0]}")

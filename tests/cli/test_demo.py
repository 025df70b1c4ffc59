"""``inturn demo`` shows what really happened, checks it, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from inturn.cli.demo import Summary, order_violations
from inturn.model.job import NewJob

COMMAND = (sys.executable, "-c", "from inturn.cli.main import main; main()", "demo")
AS_PROMISED = Summary(
    accepted=23,
    done=23,
    retried=2,
    died=1,
    dead=0,
    leases_lost=1,
    duplicates=0,
    order_violations=0,
    check=[],
    seconds=2.5,
)


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *options],
        env={"TMPDIR": str(folder), "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def test_the_demo_keeps_every_promise_and_says_so(tmp_path: Path) -> None:
    demo = start(tmp_path)
    said, complained = demo.communicate(timeout=60)
    assert (demo.returncode, complained) == (0, "")
    for words in (
        "failed: TimeoutError",
        "done, at attempt 2",
        "a lease ran out",
        "refused, LeaseLost",
        "finds a dead letter, after 2 attempts",
        "retries it: 1 put back",
        "asks for the same again: 0 put back",
        "store.check(): nothing wrong",
        "all as promised",
    ):
        assert words in said
    for customer in ("ada", "ben", "cleo", "dora"):
        assert f"{customer:<5} done in turn: 1 2 3 4" in said
    assert not list(tmp_path.iterdir())


def test_the_demo_gives_its_summary_as_json(tmp_path: Path) -> None:
    demo = start(tmp_path, "--json")
    said, complained = demo.communicate(timeout=60)
    assert (demo.returncode, complained) == (0, "")
    summary = json.loads(said)
    assert summary.pop("seconds") < 10
    expected = msgspec.to_builtins(AS_PROMISED) | {"faults": []}
    del expected["seconds"]
    assert summary == expected


def test_the_demo_stops_cleanly_when_it_is_interrupted(tmp_path: Path) -> None:
    demo = start(tmp_path)
    while not list(tmp_path.glob("*/shop.db")):
        time.sleep(0.01)
    time.sleep(0.3)
    demo.send_signal(signal.SIGINT)
    said, complained = demo.communicate(timeout=60)
    assert (demo.returncode, complained) == (130, "")
    assert "Stopped." in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change",
    [
        {"done": 22},
        {"accepted": 0, "done": 0},
        {"retried": 0},
        {"died": 0},
        {"dead": 1},
        {"leases_lost": 0},
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


@pytest.mark.parametrize(
    ("done", "violations"),
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
def test_what_overtakes_is_counted(done: Sequence[NewJob], violations: int) -> None:
    accepted = [FIRST, SECOND, OTHER, LATER]
    assert order_violations(accepted, [job.id for job in done]) == violations

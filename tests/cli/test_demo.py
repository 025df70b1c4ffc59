"""``inturn demo`` shows what really happened, checks it, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from rich.console import Console

from inturn.demo import play, shop
from inturn.model.job import NewJob
from tests.cli.support import run_process, start


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the demo makes its own folder."""
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


def test_the_demo_keeps_its_promises_and_leaves_nothing(folder: Path) -> None:
    ran = run_process("demo", "--json", environment={"TMPDIR": str(folder)})
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ran.out)
    assert (found["jobs"], found["done"], found["failed"], found["killed"]) == (22, 22, 3, 1)
    assert (found["twice"], found["out_of_order"], found["faults"]) == (0, 0, [])
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_stopped_stops_its_workers(folder: Path, number: int) -> None:
    process = start("demo", environment={"TMPDIR": str(folder)})
    assert process.stdout is not None
    while "done" not in process.stdout.readline():
        pass
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "Stopped.\n")
    time.sleep(0.1)
    assert list(folder.iterdir()) == []


def test_an_order_that_overtakes_is_counted(tmp_path: Path) -> None:
    demo = play.Demo(tmp_path, Console(quiet=True))
    first, second = (shop.order.using(key="ada").call("ada", number).new for number in (1, 2))
    demo._jobs = {str(job.id): job for job in (first, second)}

    def entry(event: str, job: NewJob) -> shop.Entry:
        return shop.Entry(event, str(job.id), 1, 0.0)

    in_turn = [entry(event, job) for job in (first, second) for event in ("started", "done")]
    demo._log = in_turn
    assert demo.out_of_order() == 0
    demo._log = [in_turn[0], in_turn[2], in_turn[1], in_turn[3]]
    assert demo.out_of_order() == 1

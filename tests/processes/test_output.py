"""With ``--json`` there is nothing on standard output but JSON, whatever handlers print."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from tests.cli.support import COMMAND
from tests.processes import loud
from tests.processes.jobs import fail
from tests.processes.support import APP, ROOT, SECONDS_MAX, Place, until

LOUD = "tests.processes.loud:app"
NOISES = [
    f"noise {of} in {where}"
    for of in ("of print", "without an end", "of write", "of a program", "of a fork", "of C")
    for where in ("a loop", "a thread", "a process", "a hook")
]

CREWS = pytest.mark.parametrize("crew", [[], ["--processes", "2"]], ids=["alone", "crew"])


@CREWS
def test_what_handlers_print_never_comes_between_the_events(
    sqlite_place: Place, crew: list[str]
) -> None:
    sqlite_place.submit(loud.on_loop.call(), loud.on_thread.call(), loud.in_process.call())
    worker = sqlite_place.start("--drain", *crew, target=LOUD)
    assert worker.ended() == 0
    kinds = [event["event"] for event in worker.events()]
    assert kinds == ["started", "died", "died", "died", "stopped"]
    assert [noise for noise in ["noise of the module", *NOISES] if noise not in worker.errors] == []


@CREWS
def test_without_json_what_handlers_print_stays_on_standard_output(
    sqlite_place: Place, crew: list[str]
) -> None:
    sqlite_place.submit(loud.on_thread.call(), loud.in_process.call())
    ran = subprocess.run(
        [*COMMAND, "work", LOUD, "--drain", *crew],
        cwd=ROOT,
        env=sqlite_place.environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS_MAX,
    )
    assert "noise of print in a thread" in ran.stdout
    assert "noise of print in a process" in ran.stdout
    assert "noise" not in ran.stderr


@CREWS
def test_events_that_cannot_be_written_are_told_by_the_exit_code(
    sqlite_place: Place, crew: list[str]
) -> None:
    sqlite_place.submit(fail.call("nobody"))
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [*COMMAND, "work", APP, "--drain", "--json", *crew],
            cwd=ROOT,
            env=sqlite_place.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=SECONDS_MAX,
        )
    assert ran.returncode == 74
    assert ran.stderr == (
        "inturn: the answer could not be written: [Errno 28] No space left on device.\n"
        "What was asked for may have been done all the same. Look before you ask again.\n"
    )
    assert sqlite_place.left() == 0


@CREWS
def test_a_worker_whose_events_nobody_reads_any_more_works_on_and_says_so_at_its_end(
    sqlite_place: Place, crew: list[str]
) -> None:
    worker = subprocess.Popen(
        [*COMMAND, "work", APP, "--json", *crew],
        cwd=ROOT,
        env=sqlite_place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with worker:
        assert worker.stdout is not None
        assert json.loads(worker.stdout.readline())["event"] == "started"
        worker.stdout.close()
        for name in ("first", "second"):
            sqlite_place.submit(fail.call(name))
            until(lambda: sqlite_place.left() == 0)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(SECONDS_MAX) == 141
        assert worker.stderr is not None
        assert worker.stderr.read() == b""

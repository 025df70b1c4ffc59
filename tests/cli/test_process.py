"""The command as a process: how it is called, and what scripts around it rely on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from inturn import __version__
from inturn.cli.text import short_id
from tests.cli.support import COMMAND, halt_lane, on_store, run_process, start


def test_an_operator_works_with_processes_on_both_stores(url: str) -> None:
    environment = {"INTURN_STORE": url}
    first, *_ = on_store(url, halt_lane)
    shown = run_process("dead", "list", "--json", environment=environment)
    assert [letter["id"] for letter in json.loads(shown.out)["dead"]] == [str(first)]
    retried = run_process("lanes", "retry", "orders", "c-7", environment=environment)
    assert (retried.code, short_id(first) in retried.out, retried.err) == (0, True, "")
    again = run_process("lanes", "retry", "orders", "c-7", environment=environment)
    assert (again.code, again.out, "Traceback" in again.err) == (1, "", False)


def test_the_script_and_python_m_are_the_command() -> None:
    for command in ([Path(COMMAND[0]).with_name("inturn")], [sys.executable, "-m", "inturn"]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout == f"inturn {__version__}\n"


def test_a_wrong_command_line_exits_with_2_and_shows_the_usage() -> None:
    for arguments in (["jobz"], ["jobs", "show"], ["submit", "k", "--priority", "high"]):
        ran = run_process(*arguments)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("Usage: inturn")


def test_help_alone_teaches() -> None:
    ran = run_process()
    assert "inturn demo" in ran.out + ran.err


def test_a_reader_that_goes_away_ends_it_quietly(sqlite_url: str) -> None:
    on_store(sqlite_url, halt_lane)
    process = start("status", "--watch", "--json", "--store", sqlite_url)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(120) != 0
    assert process.stderr.read() == ""
    process.stderr.close()


def test_ctrl_c_ends_it_without_a_traceback(tmp_path: Path, sqlite_url: str) -> None:
    process = start("submit", "k", "--payload", "-", "--store", sqlite_url, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(" " * 300_000)  # more than a pipe holds: it reads by now
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "Traceback" not in err

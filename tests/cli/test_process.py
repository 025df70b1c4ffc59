"""The command as a process: exit codes, signals, pipes, encodings, completion."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from inturn import __version__
from inturn.model.job import NewJob
from tests.cli.support import COMMAND, halt_lane, on_store, run_process, start


def new_jobs(number: int) -> list[NewJob]:
    return [NewJob(kind="k", queue="q") for _ in range(number)]


def test_what_an_operator_does_works_as_processes_on_both_stores(url: str) -> None:
    environment = {"INTURN_STORE": url}
    first, *_ = on_store(url, halt_lane)
    shown = run_process("dead", "list", "--json", environment=environment)
    assert (shown.code, shown.err) == (0, "")
    assert [letter["id"] for letter in json.loads(shown.out)["dead"]] == [str(first)]
    retried = run_process("lanes", "retry", "orders", "c-7", environment=environment)
    assert (retried.code, retried.out) == (0, f"Lane 'c-7' runs job {first} again.\n")
    again = run_process("lanes", "retry", "orders", "c-7", environment=environment)
    assert (again.code, again.out) == (1, "")
    assert "is not halted" in again.err


def test_the_installed_script_is_the_command() -> None:
    script = Path(COMMAND[0]).with_name("inturn")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"inturn {__version__}\n")


def test_python_m_inturn_is_the_command() -> None:
    ran = [sys.executable, "-m", "inturn", "--version"]
    done = subprocess.run(ran, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"inturn {__version__}\n", "")
    wrong = subprocess.run([*ran[:3], "jobz"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "`inturn --help` shows how it is used." in wrong.stderr


def test_ctrl_c_in_the_middle_leaves_with_130_and_no_traceback(
    sqlite_url: str, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "payload")
    process = start("submit", "k", "--payload", "@payload", "--store", sqlite_url, cwd=tmp_path)
    with (tmp_path / "payload").open("wb"):  # opens when the command has come as far
        time.sleep(0.2)  # and now it waits for what is in it
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "")


def test_ctrl_c_in_a_long_list_leaves_with_130(sqlite_url: str) -> None:
    on_store(sqlite_url, lambda store: store.enqueue(new_jobs(3_000)))
    process = start("jobs", "list", "--limit", "100000", "--store", sqlite_url)
    assert process.stdout is not None
    process.stdout.readline()  # the rest fills the pipe, and the command waits
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, "")


def test_a_reader_that_goes_away_ends_it_quietly(sqlite_url: str) -> None:
    on_store(sqlite_url, lambda store: store.enqueue(new_jobs(3_000)))
    process = start("jobs", "list", "--limit", "100000", "--json", "--store", sqlite_url)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert (process.wait(120), process.stderr.read()) == (141, "")
    process.stderr.close()


@pytest.mark.parametrize("arguments", ["", "--help", "--version", "jobs", "jobs list --help"])
def test_a_reader_of_help_that_goes_away_ends_it_quietly(arguments: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = subprocess.run(
            [*COMMAND, *arguments.split()],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (141, "")


@pytest.mark.parametrize("jobs", [0, 1_000], ids=["little", "much"])
def test_output_that_cannot_be_written_is_told_once(sqlite_url: str, jobs: int) -> None:
    on_store(sqlite_url, lambda store: store.enqueue(new_jobs(jobs)))
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "jobs", "list", "--limit", "1000", "--store", sqlite_url],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 74
    assert done.stderr == (
        "inturn: the answer could not be written: [Errno 28] No space left on device.\n"
        "What was asked for may have been done all the same. Look before you ask again.\n"
    )


def test_a_job_whose_acceptance_cannot_be_told_is_not_called_refused(sqlite_url: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "submit", "send", "--store", sqlite_url],
            stdout=full,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    assert done.returncode == 74
    assert len(on_store(sqlite_url, lambda store: store.jobs()).rows) == 1


def test_streams_that_the_shell_closed_do_no_harm(sqlite_url: str) -> None:
    command = shlex.join([*COMMAND, "status", "--store", sqlite_url])
    ran = subprocess.run(f"{command} >&-", shell=True, stderr=subprocess.PIPE, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    wrong = subprocess.run(f"{command} --nonsense 2>&-", shell=True, check=False)
    assert wrong.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("submit", "x", "--payload", "-"), "nothing was given on stdin"),
        (("dead", "retry", "--all"), "nobody is there to ask. Pass --yes."),
    ],
)
def test_a_stdin_that_the_shell_closed_is_one_with_nothing_in_it(
    sqlite_url: str, arguments: tuple[str, ...], said: str
) -> None:
    command = shlex.join([*COMMAND, *arguments, "--store", sqlite_url])
    for stdin in ("<&-", "< /dev/null"):
        ran = subprocess.run(
            f"{command} {stdin}", shell=True, capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stdout) == (2, "")
        assert said in ran.stderr


def test_a_folder_that_is_gone_does_no_harm(sqlite_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    command = f"cd {folder} && rmdir {folder} && {shlex.join([*COMMAND, 'status'])}"
    ran = subprocess.run(f"{command} --store {sqlite_url}", shell=True, check=False)
    assert ran.returncode == 0


def test_text_that_the_output_cannot_spell_does_not_stop_it(sqlite_url: str) -> None:
    on_store(sqlite_url, lambda store: store.enqueue([NewJob(kind="k", queue="q", key="ключ")]))
    ran = run_process(
        "jobs", "list", "--store", sqlite_url, environment={"PYTHONIOENCODING": "ascii"}
    )
    assert (ran.code, ran.err) == (0, "")
    assert "\\u043a\\u043b\\u044e\\u0447" in ran.out


def test_words_are_completed() -> None:
    def completed(*words: str) -> list[str]:
        environment = {
            "_INTURN_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(["inturn", *words]),
            "COMP_CWORD": str(len(words)),
        }
        return run_process(environment=environment).out.split()

    assert completed("la") == ["lanes"]
    assert {"retry", "skip", "drop"} <= set(completed("lanes", ""))
    assert completed("jobs", "list", "--state", "sch") == ["scheduled"]


def test_completion_can_be_installed() -> None:
    assert "--install-completion" in run_process("--help").out


def test_help_alone_teaches_and_leaves_with_2() -> None:
    for arguments in ((), ("lanes",)):
        ran = run_process(*arguments)
        assert (ran.code, ran.err) == (2, "")
        assert "Usage: inturn" in ran.out

"""Forks: a child does not go on as if it were the executor, nor wait for what is not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.executor.support import SECONDS_MAX

ROOT = Path(__file__).parents[2]


def said_by(program: str, *arguments: str) -> list[str]:
    """Run a program, and return the lines that it and its children print."""
    command = [sys.executable, "-m", program, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, process_group=0) as process:
        try:
            said, _ = process.communicate(timeout=SECONDS_MAX)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its child, too
    return said.decode().splitlines()


@pytest.mark.parametrize("how", ["def", "async", "late", "lambda"])
@pytest.mark.parametrize(("end", "code"), [("returns", 0), ("fails", 70)])
def test_a_child_that_a_job_forks_ends_when_it_comes_back(how: str, end: str, code: int) -> None:
    assert said_by("tests.executor.forking", f"{how} {end}") == [
        *[f"job {n} ran in the parent" for n in range(3)],
        "all ended in the parent",
        f"child left with {code}",
    ]


REFUSED = (
    "child: ExecutorClosed: the executor belongs to the process that this one was forked from, and "
    "runs jobs there. Make one in each process."
)
OF_BOTH = ["submit", "submit_many", "submit_sync", "run", "barrier", "stop", "stop_now", "enter"]
OF_TICKETS = ["result", "result_in_time", "result_sync", "cancel", "cancel_running"]


@pytest.mark.parametrize("verb", [*OF_BOTH, *OF_TICKETS, "resume", "halted"])
def test_in_a_forked_child_every_verb_says_whose_the_executor_is(verb: str) -> None:
    assert said_by("tests.executor.inheriting", "memory", verb) == [REFUSED, "parent: True ran"]


def test_a_ticket_that_has_ended_can_be_read_in_a_forked_child() -> None:
    said = said_by("tests.executor.inheriting", "memory", "read")
    assert said == ["child: ('ran', 'ran', False)", "parent: True ran"]


@pytest.mark.parametrize("verb", OF_BOTH)
def test_in_a_forked_child_every_verb_of_a_durable_executor_says_whose_it_is(
    url: str, verb: str
) -> None:
    assert said_by("tests.executor.inheriting", url, verb) == [REFUSED, "parent: True ran"]

"""A job that forks: its child does not go on as if it were the executor."""

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


@pytest.mark.parametrize("how", ["def", "async", "late", "lambda"])
@pytest.mark.parametrize(("end", "code"), [("returns", 0), ("fails", 70)])
def test_a_child_that_a_job_forks_ends_when_it_comes_back(how: str, end: str, code: int) -> None:
    command = [sys.executable, "-m", "tests.executor.forking", f"{how} {end}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, process_group=0) as process:
        try:
            said, _ = process.communicate(timeout=SECONDS_MAX)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its child, too
    assert said.decode().splitlines() == [
        *[f"job {n} ran in the parent" for n in range(3)],
        "all ended in the parent",
        f"child left with {code}",
    ]

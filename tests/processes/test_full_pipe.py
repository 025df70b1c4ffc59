"""A worker whose output nobody reads can be stopped, and keeps what it holds."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.cli.support import COMMAND
from tests.processes.jobs import fail, hold_thread
from tests.processes.support import APP, ROOT, SECONDS_MAX, Place, children, until

FLAGS = [
    [],
    ["--json"],
    ["--processes", "2"],
    ["--processes", "2", "--json"],
]


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_an_idle_worker_stops_though_nobody_reads_what_it_writes(
    sqlite_place: Place, flags: list[str]
) -> None:
    with unread(sqlite_place, *flags) as worker:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(SECONDS_MAX) == 0
    until(lambda: not sqlite_place.views())


def test_an_idle_crew_ends_well_though_nobody_reads_it_and_all_of_it_is_signalled(
    sqlite_place: Place,
) -> None:
    with unread(sqlite_place, "--processes", "2") as crew:
        for pid in (*children(crew.pid), crew.pid):
            os.kill(pid, signal.SIGTERM)
        assert crew.wait(SECONDS_MAX) == 0
    until(lambda: not sqlite_place.views())


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_signals_end_a_worker_that_stands_still_because_nobody_reads_what_it_writes(
    place: Place, flags: list[str]
) -> None:
    with unread(place, *flags) as worker:
        place.submit(hold_thread.call("h"))
        place.began("h")
        place.submit(fail.call("nobody"))
        until(lambda: place.left() == 1)
        place.until_prolonged()
        for _ in range(3):
            with suppress(subprocess.TimeoutExpired):
                worker.send_signal(signal.SIGTERM)
                worker.wait(1.0)  # the same again within half a second is the same one
        assert worker.wait(SECONDS_MAX) == 128 + signal.SIGTERM


def test_processes_whose_parent_is_killed_end_though_nobody_reads_what_they_write(
    sqlite_place: Place,
) -> None:
    with unread(sqlite_place, "--processes", "2") as crew:
        crew.kill()
        until(lambda: not sqlite_place.views())


@contextmanager
def unread(place: Place, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a worker, and fill the pipe that it writes to when all of it works."""
    reading, writing = os.pipe()
    worker = subprocess.Popen(
        [*COMMAND, "work", APP, "--lease", "2s", *flags],
        cwd=ROOT,
        env=place.environment,
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=writing,
    )
    try:
        until(lambda: len(place.views()) == (2 if "--processes" in flags else 1))
        said = b""
        while b"Ctrl-C" not in said and b'"started"' not in said:
            said += os.read(reading, 65_536)
        filling = os.open(f"/proc/self/fd/{writing}", os.O_WRONLY | os.O_NONBLOCK)
        with suppress(BlockingIOError):
            while True:
                os.write(filling, b"x")
        os.close(filling)
        yield worker
    finally:
        place.close()
        with suppress(ProcessLookupError):
            worker.kill()
        worker.wait()
        os.close(reading)
        os.close(writing)

"""What worker processes have run, told to the bench through files, which any language can write.

Each process connects, writes ``PID.ready`` and waits until ``go`` is there, which starts the clock:
what a peer can do before it has work is no part of the time. Then it tells of its runs in one
of two ways. Handlers on an event loop keep a ``Tally``: its count is in ``PID.count``, and when
``stop`` appears it writes ``PID.runs``, a line for each run with its time and the job's number, if
the bench asked for them with ``BENCH_KEEPS_RUNS``. Handlers on threads or in forked processes
append each run to the ``Journal``, one file for all, as two numbers of 8 bytes.

It is imported in the peers' environments, so it needs nothing but the standard library.
"""

from __future__ import annotations

import asyncio
import os
import struct
import threading
import time
from pathlib import Path

TELL_SECONDS = 0.005
LOOK_SECONDS = 0.001
RECORD = struct.Struct("qq")
JOURNAL = "journal"


class Tally:
    """The runs of one worker process, whose handlers are on one event loop."""

    def __init__(self) -> None:
        self._folder = Path(os.environ["BENCH_FOLDER"])
        self._keeps_runs = bool(os.environ.get("BENCH_KEEPS_RUNS"))
        self._runs: list[tuple[int, int]] = []
        self._count = 0
        self._telling: asyncio.Task[None] | None = None

    def ran(self, number: int) -> None:
        """Count a job; called by its handler."""
        self._count += 1
        if self._keeps_runs:
            self._runs.append((time.monotonic_ns(), number))

    async def begin(self) -> None:
        """Say that all is imported and connected, and return when every process is so far."""
        self._file("ready").touch()
        go = self._folder / "go"
        while not go.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(LOOK_SECONDS)
        self._telling = asyncio.create_task(self._tell())

    async def _tell(self) -> None:
        stop, told = self._folder / "stop", 0
        with self._file("count").open("w") as file:
            while not stop.exists():
                if told != self._count:
                    told = self._count
                    os.pwrite(file.fileno(), f"{told:12d}".encode(), 0)
                await asyncio.sleep(TELL_SECONDS)
        unfinished = self._file("runs.part")
        unfinished.write_text("".join(f"{at} {number}\n" for at, number in self._runs))
        unfinished.rename(self._file("runs"))

    def _file(self, name: str) -> Path:
        return self._folder / f"{os.getpid()}.{name}"


class Journal:
    """The runs of all worker processes of a side, from any of their threads and children."""

    def __init__(self) -> None:
        self._folder = Path(os.environ["BENCH_FOLDER"])
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
        self._file = os.open(self._folder / JOURNAL, flags)

    def ran(self, number: int) -> None:
        """Write down a run; called by its handler. The system keeps appended records whole."""
        os.write(self._file, RECORD.pack(time.monotonic_ns(), number))

    def begin(self, among: int = 1) -> None:
        """Say that all is imported and connected, and return when every process is so far.

        A process of the bench whose children or threads each call this is ready with the last of
        them: ``among`` is how many they are.
        """
        (self._folder / f"{os.getpid()}-{threading.get_ident()}.connected").touch()
        if len(list(self._folder.glob("*.connected"))) >= among:
            (self._folder / f"{os.getpid()}.ready").touch()
        go = self._folder / "go"
        while not go.exists():
            time.sleep(LOOK_SECONDS)


def count_runs(folder: Path) -> int:
    """Return how many handlers have run, over all processes."""
    told = sum(int(file.read_text() or 0) for file in folder.glob("*.count"))
    journal = folder / JOURNAL
    return told + (journal.stat().st_size // RECORD.size if journal.exists() else 0)

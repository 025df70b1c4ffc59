"""What a worker process has run, told to the bench through files, which any language can write.

The process writes ``PID.ready``, waits until ``go`` is there, and from then on keeps its count of
finished handlers in ``PID.count``. When ``stop`` appears it writes ``PID.runs``, a line for each
run with its time and the job's number, if the bench asked for them with ``BENCH_KEEPS_RUNS``.

It is imported in the peers' environments, so it needs nothing but the standard library.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

TELL_SECONDS = 0.02
LOOK_SECONDS = 0.001


class Tally:
    """The runs of one worker process."""

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

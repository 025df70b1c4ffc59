"""The crew: workers that are processes of their own, started with ``inturn work``."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from inturn.demo.diary import VARIABLE

COMMAND = (sys.executable, "-m", "inturn.cli.main", "work", "inturn.demo.shop:app")
LEASE_SECONDS = 5.0  # a busy machine may stand still for a while, and is not dead
SWEEP_SECONDS = 0.5
STOP_SECONDS_MAX = 10.0


class Crew:
    """Worker processes by name, until they are stopped or killed."""

    def __init__(self, url: str, diary: Path) -> None:
        self._url, self._diary = url, diary
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._log = diary.with_name("workers.log")

    async def start(self, name: str) -> None:
        """Start a worker."""
        options = ("--store", self._url, "--name", name, "--slots", "1")
        times = ("--lease", f"{LEASE_SECONDS}s", "--sweep", f"{SWEEP_SECONDS}s")
        with self._log.open("ab") as log:
            self._processes[name] = await asyncio.create_subprocess_exec(
                *COMMAND,
                *options,
                *times,
                env={**os.environ, VARIABLE: str(self._diary)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def name_of(self, pid: int) -> str:
        """Return the name of the worker with a process id."""
        return next((name for name, one in self._processes.items() if one.pid == pid), str(pid))

    def dead(self) -> list[str]:
        """Return the workers that ended by themselves."""
        return [name for name, one in self._processes.items() if one.returncode is not None]

    async def kill(self, name: str) -> None:
        """Kill a worker with a signal that it cannot hear."""
        process = self._processes[name]
        process.send_signal(signal.SIGKILL)
        await process.wait()

    async def stop(self) -> list[int]:
        """Tell those that live to stop; return their exit codes."""
        living = [one for one in self._processes.values() if one.returncode is None]
        for process in living:
            process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                return [await process.wait() for process in living]
        except TimeoutError:
            for process in living:
                if process.returncode is None:
                    process.kill()
            return [await process.wait() for process in living]

    def said(self) -> str:
        """Return the end of what the workers wrote, for when something is wrong."""
        return self._log.read_text(errors="replace")[-2_000:] if self._log.exists() else ""

"""The crew: workers that are processes of their own, as those of ``inturn work --processes``."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

from inturn.demo.diary import VARIABLE

COMMAND = (sys.executable, "-m", "inturn.cli.member")
TARGET = "inturn.demo.shop:app"
LEASE_SECONDS = 5.0  # a busy machine may stand still for a while, and is not dead
SWEEP_SECONDS = 0.5
STOP_SECONDS_MAX = 10.0


class Crew:
    """Worker processes by name, until they are stopped or killed."""

    def __init__(self, url: str, diary: Path) -> None:
        self._url, self._diary = url, diary
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._lines: list[socket.socket] = []
        self._log = diary.with_name("workers.log")

    async def start(self, name: str) -> None:
        """Start a worker, on a line whose end is its end, however the demo is ended."""
        # Imported here, so that the commands that run no worker start fast.
        from inturn.worker.settings import WorkSettings
        from inturn.worker.supervisor import Begin, line

        settings = WorkSettings(
            target=TARGET,
            folder=str(self._diary.parent),
            name=name,
            store=self._url,
            concurrency=1,
            lease_seconds=LEASE_SECONDS,
            sweep_seconds=SWEEP_SECONDS,
        )
        begin = Begin(settings, as_json=False)
        mine, its = socket.socketpair()
        self._lines.append(mine)
        with its, self._log.open("ab") as log:
            self._processes[name] = await asyncio.create_subprocess_exec(
                *COMMAND,
                env={**os.environ, VARIABLE: str(self._diary)},
                stdin=its.fileno(),
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C is for the demo, which stops them
            )
        mine.sendall(line(begin))  # what it reports is not read: the diary tells

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
        finally:
            for line in self._lines:
                line.close()

    def said(self) -> str:
        """Return the end of what the workers wrote, for when something is wrong."""
        return self._log.read_text(errors="replace")[-2_000:] if self._log.exists() else ""

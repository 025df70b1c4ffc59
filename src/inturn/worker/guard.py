"""A worker's guard: a process of its own that outlives the worker, and ends its children then."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from inturn.worker import guard_process

END_SECONDS_MAX = 5.0


class Guard:
    """Is told of each child's process group, and of its end.

    A child notices by itself that its worker is gone, unless its handler lets no other thread run;
    and it cannot kill what its handler started once it was killed itself. The guard can.
    """

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._ends: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start the process."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", guard_process.__file__, str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, child: asyncio.subprocess.Process) -> None:
        """Have all of a child's group killed if this process ends before the child does."""
        self._tell(child.pid)
        end = asyncio.get_running_loop().create_task(self._forget(child), name="inturn-guard")
        self._ends.add(end)
        end.add_done_callback(self._ends.discard)

    @property
    def pids(self) -> list[int]:
        """Return the process's number, if it was started."""
        return [] if self._process is None else [self._process.pid]

    async def stop(self) -> None:
        """End the process, when there is no child any more."""
        if self._ends:
            await asyncio.wait(self._ends, timeout=END_SECONDS_MAX)
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), END_SECONDS_MAX)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _forget(self, child: asyncio.subprocess.Process) -> None:
        # Another process may get the number from now on.
        await child.wait()
        self._tell(-child.pid)

    def _tell(self, group: int) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        if self._process.returncode is None:
            self._process.stdin.write(f"{group}\n".encode())

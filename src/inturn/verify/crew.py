"""The crew: the processes of a run, started, told, stopped for a while, and killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from inturn.verify.plan import Settings

LOG_NAME = "processes.log"


class Member:
    """One place in the crew: a process, and after its end the next one in its place."""

    def __init__(self, role: str, number: int) -> None:
        self.role, self.number = role, number
        self.starts = 0
        self.is_stopped = False  # by SIGSTOP
        self.process: asyncio.subprocess.Process | None = None

    @property
    def name(self) -> str:
        """What the process in this place is called: no two processes share a name."""
        return f"{self.role}-{self.number}-{self.starts}"

    @property
    def is_alive(self) -> bool:
        """Whether there is a process, and it runs."""
        return self.process is not None and self.process.returncode is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if there is someone to hear it.

        Not by ``Process.send_signal``, which first looks whether the process has ended. Then it
        takes the exit code from whoever waits for it, and that one is told 255.
        """
        if self.process is not None and self.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def tell(self, order: str) -> None:
        """Give an order, if there is someone to hear it."""
        stdin = self.process.stdin if self.process is not None else None
        if stdin is not None and self.is_alive:
            with suppress(ConnectionError, RuntimeError):
                stdin.write(f"{order}\n".encode())


class Crew:
    """Keeps every place filled until the run is over."""

    def __init__(
        self, settings: Settings, *, started: Callable[[Member], None], stop_seconds_max: float
    ) -> None:
        self._settings, self._started = settings, started
        self._stop_seconds_max = stop_seconds_max
        self.workers = [Member("worker", n + 1) for n in range(settings.workers)]
        self.producers = [Member("producer", n + 1) for n in range(settings.producers)]
        self._keepers: list[asyncio.Task[None]] = []
        self._is_over = {"worker": False, "producer": False}
        self.ends: dict[str, int] = {}  # the exit code of each process that ended

    async def start(self) -> None:
        """Start everyone."""
        for member in (*self.workers, *self.producers):
            self._keepers.append(asyncio.create_task(self._keep(member)))

    async def stop_producers(self) -> None:
        """Let the producers finish their batch, and start no more of them."""
        self._is_over["producer"] = True
        for member in self.producers:
            member.tell("stop")
        await self._wait(self.producers)

    async def stop_workers(self) -> None:
        """Let the workers finish what runs, and start no more of them."""
        self._is_over["worker"] = True
        for member in self.workers:
            self.resume(member)
            member.signal(signal.SIGTERM)
        await self._wait(self.workers)

    async def close(self) -> None:
        """End whoever is left, at once."""
        self._is_over = dict.fromkeys(self._is_over, True)
        for member in (*self.workers, *self.producers):
            member.signal(signal.SIGKILL)
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for member in (*self.workers, *self.producers):
            if member.process is not None:
                await member.process.wait()

    def stop_for_a_while(self, member: Member) -> None:
        """Let a process stand still until it is resumed."""
        member.is_stopped = True
        member.signal(signal.SIGSTOP)

    def resume(self, member: Member) -> None:
        """Let a process go on that stands still."""
        if member.is_stopped:
            member.is_stopped = False
            member.signal(signal.SIGCONT)

    async def _keep(self, member: Member) -> None:
        while not self._is_over[member.role]:
            member.starts += 1
            member.is_stopped = False
            member.process = await self._spawn(member)
            self._started(member)
            name = member.name
            self.ends[name] = await member.process.wait()
            if not self._is_over[member.role]:
                await asyncio.sleep(0.05)

    async def _spawn(self, member: Member) -> asyncio.subprocess.Process:
        folder = Path(self._settings.folder)
        with (folder / LOG_NAME).open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", f"inturn.verify.{member.role}", member.name),
                env={**os.environ, **self._settings.environment()},
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the run, which then stops them in order
            )

    async def _wait(self, members: list[Member]) -> None:
        try:
            async with asyncio.timeout(self._stop_seconds_max):
                for member in members:
                    if member.process is not None:
                        await member.process.wait()
        except TimeoutError:
            for member in members:
                member.signal(signal.SIGKILL)

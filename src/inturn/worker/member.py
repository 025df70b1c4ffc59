"""A member as its crew's parent sees it: a process, the line to it, and what it last reported."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Sequence
from time import monotonic

import msgspec

from inturn.model.worker_events import Counts
from inturn.policy.raised import describe
from inturn.worker.line import (
    Beat,
    Begin,
    Complained,
    Emptied,
    Finished,
    NoStore,
    Order,
    Report,
    Up,
    reports,
    spoken,
)
from inturn.worker.pulse import Health

SILENCE_SECONDS_MAX = 5.0  # of a member that lives: it reports twice a second
REPORT_BYTES_MAX = 1 << 30  # one names every kind of its app


class Member:
    """One process. ``up`` is called once, when it works."""

    def __init__(self, name: str, up: Callable[[Up], None]) -> None:
        self.name = name
        self.counts = Counts()
        self.running = 0
        self.is_up = False
        self.is_emptied = False  # it has drained all there was
        self.is_finished = False  # it said so itself: a code of 0 may be a job's doing
        self.no_store: str | None = None  # why it could not begin, if that was the store
        self.has_complained = False  # it said itself what it ended of
        self.unread: str | None = None  # why it was killed, if its reports could not be read
        self.pid = 0
        self._up = up
        self._began_at = 0.0
        self._heard_at = 0.0
        self._health = Health(healthy=False, why="it has not begun to work yet")
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._early: list[Order] = []  # given before there was a line

    async def live(self, command: Sequence[str], begin: Begin) -> int:
        """Start the process and wait for its end; return what it left with."""
        mine, its = socket.socketpair()
        try:
            with its:
                # A group of its own: Ctrl-C is for the parent, who passes it on, once.
                self._process = await asyncio.create_subprocess_exec(
                    *command, stdin=its.fileno(), process_group=0
                )
        except BaseException:
            mine.close()
            raise
        self.pid = self._process.pid
        self._began_at = self._heard_at = monotonic()
        reader, self._writer = await asyncio.open_connection(sock=mine, limit=REPORT_BYTES_MAX)
        for order in (begin, *self._early):
            self.order(order)
        listening = asyncio.create_task(self._listen(reader))
        code = await self._process.wait()
        # What it said last is still on the line. A child of its own may hold the line open.
        await asyncio.wait([listening], timeout=1.0)
        listening.cancel()
        self._writer.close()
        self._health = Health(healthy=False, why=f"its process {how_ended(code)}")
        return code

    def order(self, order: Order) -> None:
        """Tell the process something, if it is there; as soon as it is, if it is about to be."""
        if self._writer is None:
            self._early.append(order)
        elif not self._writer.is_closing():
            self._writer.write(spoken(order))

    def kill(self) -> None:
        """End the process, whatever it is at."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    def lived_seconds(self, now: float) -> float:
        """Return how long ago it was started."""
        return now - self._began_at

    def health(self, now: float) -> Health:
        """Return what it says of itself, unless it has fallen silent."""
        silence = now - self._heard_at
        if self._health.healthy and silence > SILENCE_SECONDS_MAX:
            return Health(healthy=False, why=f"nothing was heard of it for {silence:.0f} s")
        return self._health

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Hear the process out. One that cannot be understood is none: another takes its place."""
        with contextlib.suppress(OSError):
            try:
                while line := await reader.readline():
                    self._hear(reports.decode(line))
            except (ValueError, msgspec.DecodeError) as error:
                self.unread = describe(error)
                self.kill()

    def _hear(self, report: Report) -> None:
        self._heard_at = monotonic()
        match report:
            case Up():
                self.is_up = True
                self._up(report)
            case Beat():
                self._health, self.running = report.health, report.running
                self.counts = report.counts
            case NoStore(why):
                self.no_store = why
            case Complained():
                self.has_complained = True
            case Emptied():
                self.is_emptied = True
            case Finished():
                self.is_finished = True


def how_ended(code: int) -> str:
    """Say how a process ended, by what it left with."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"

"""How far a job is, as its handler says: written to the store about once a second."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from inturn.model.errors import LeaseLost, StoreError

PAUSE_SECONDS = 1.0


class Reporter:
    """Writes what is said first at once, and of what is said within a second only the last.

    What is said in the last moment before a job ends is not written: the job's end says more.
    """

    __slots__ = ("_latest", "_loop", "_lost", "_timer", "_write", "_writing")

    def __init__(self, write: Callable[[float, str], Awaitable[None]]) -> None:
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._latest: tuple[float, str] | None = None
        self._lost: LeaseLost | None = None
        self._timer: asyncio.TimerHandle | None = None  # until something may be written again
        self._writing: asyncio.Task[None] | None = None

    async def say(self, fraction: float, note: str) -> None:
        """Let it be known; raise ``LeaseLost`` if the lease turned out to be gone."""
        self._latest = (fraction, note)
        if self._timer is None:
            await self._write_latest()
        if self._lost is not None:
            raise self._lost

    def end(self) -> None:
        """Write nothing more; from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._latest = None
        if self._timer is not None:
            self._timer.cancel()

    async def _write_latest(self) -> None:
        if self._latest is None:
            return
        (fraction, note), self._latest = self._latest, None
        self._timer = self._loop.call_later(PAUSE_SECONDS, self._write_again)
        try:
            await self._write(fraction, note)
        except LeaseLost as error:
            self._lost = error
        except StoreError:
            pass  # the worker says so, and a job does not fail because it could not be watched

    def _write_again(self) -> None:
        self._timer = None
        if self._latest is not None:
            self._writing = self._loop.create_task(self._write_latest())

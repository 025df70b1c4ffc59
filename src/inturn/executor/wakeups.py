"""A wait of a coroutine that another thread, or another event loop, may end."""

from __future__ import annotations

import asyncio
import contextlib
from threading import get_ident


class LoopWakeup:
    """One wait of a coroutine, on any loop, that may be ended from any thread."""

    __slots__ = ("_future", "_loop", "_thread")

    def __init__(self) -> None:
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        self._future: asyncio.Future[None] = self._loop.create_future()

    def set(self) -> None:
        """End the wait."""
        if get_ident() == self._thread:
            self._end()
            return
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits there
            self._loop.call_soon_threadsafe(self._end)

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until it is fired, or so long; the caller looks which."""
        timer = None if seconds is None else self._loop.call_later(seconds, self._end)
        try:
            await self._future
        finally:
            if timer is not None:
                timer.cancel()

    def _end(self) -> None:
        if not (self._future.done() or self._loop.is_closed()):
            self._future.set_result(None)

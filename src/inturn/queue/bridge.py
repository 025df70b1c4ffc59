"""The one way from code that is not async, and from other loops, to a loop that stays."""

from __future__ import annotations

import asyncio
import threading


class Bridge:
    """A thread with an event loop of its own, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._visitors = 0

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop, running."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                begun = threading.Event()
                self._loop.call_soon(begun.set)
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="inturn-bridge", daemon=True
                )
                self._thread.start()
                begun.wait()  # who looks whether it runs must not find that it does not yet
            return self._loop

    def is_loop(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Say whether a loop is the bridge's."""
        return loop is self._loop

    def enter(self) -> None:
        """Count one who waits for what runs here."""
        with self._lock:
            self._visitors += 1

    def leave(self) -> None:
        """Count one less."""
        with self._lock:
            self._visitors -= 1

    def is_idle(self) -> bool:
        """Say whether nobody waits for what runs here."""
        with self._lock:
            return not self._visitors and self._thread is not threading.current_thread()

    def stop(self) -> None:
        """End the thread. The loop must have nothing left to do, and get nothing more."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
            if self._thread is not None:
                self._thread.join()
            loop.close()

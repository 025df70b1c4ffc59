"""Who sees to it that an executor ends: when it has drained, or when its loop is taken down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from inturn.executor.door import Door
from inturn.executor.loop_slots import LoopSlots
from inturn.executor.thread_slots import ThreadSlots
from inturn.model import events

if TYPE_CHECKING:
    from inturn.executor.turns import Turns


class Keeper:
    """A coroutine that waits as long as the executor lives, and then puts everything away.

    It never runs a job. So when it is cancelled, that is the loop being taken down without a stop,
    and what was accepted is reported instead of being lost without a word.
    """

    def __init__(
        self,
        turns: Turns,
        on_loop: LoopSlots,
        on_threads: ThreadSlots,
        door: Door,
    ) -> None:
        self._turns = turns
        self._on_loop, self._on_threads = on_loop, on_threads
        self._door = door
        self._signals: list[Callable[[], None]] = []
        loop = asyncio.get_running_loop()
        self._drained = loop.create_future()
        self.stopped = False
        self._work = loop.create_task(self._keep(), name="inturn-keeper")

    def is_cancelled(self) -> bool:
        """Whether the loop was taken down, or is just being."""
        return self._work.cancelling() > 0

    def end(self) -> None:
        """Put everything away: all that was accepted has ended. From any thread."""
        assert self._turns.home is not None
        self._turns.home.call(self._end)

    def on_stopped(self, signal: Callable[[], None]) -> bool:
        """Have a signal called when all is put away; False if it is."""
        with self._turns.lock:
            if self.stopped:
                return False
            self._signals.append(signal)
            return True

    def _end(self) -> None:
        if not self._drained.done():
            self._drained.set_result(None)

    async def _keep(self) -> None:
        try:
            await self._drained
            await self._on_loop.end()
            self._on_threads.end()
            self._on_threads.join()
        except asyncio.CancelledError:
            self._door.close(self.end)
            self._turns.abort("its event loop ended before the executor was stopped")
            self._on_loop.abandon()
            self._on_threads.end()
            raise
        finally:
            with self._turns.lock:
                self.stopped = True
                signals, self._signals = self._signals, []
            for signal in signals:
                signal()
            stopped = events.Stopped(self._turns.depths)
            if self._turns.lanes.drained:
                self._turns.tell(stopped)
            else:  # a def runs on: the log is not told that all has ended
                self._turns.tell_each(stopped)

"""A worker's vitals: keeps its pulse, and says once when the store went or came."""

from __future__ import annotations

import asyncio
from time import monotonic

from inturn.model.worker_events import StoreBack, StoreTroubled
from inturn.worker.pulse import TURN_SECONDS, Health, Pulse
from inturn.worker.record import Record


class Vitals:
    """Hears from whoever asks the store (``who``) how that went, on whichever thread."""

    def __init__(self, worker: str, record: Record, *, lease_seconds: float) -> None:
        self._worker, self._record = worker, record
        self._pulse = Pulse(lease_seconds)

    def health(self) -> Health:
        """Judge whether the worker works."""
        return self._pulse.health(monotonic())

    async def turn_over(self) -> None:
        """Show for ever that the loop turns on which this runs."""
        while True:
            self._pulse.turn(monotonic())
            await asyncio.sleep(TURN_SECONDS)

    def beaten(self) -> None:
        """Hear that the store took a heartbeat."""
        self._pulse.beat(monotonic())
        self.answered("beating")

    def troubled(self, who: str, error: Exception) -> None:
        """Say that the store could not do its work, once; what asked it tries again."""
        if self._pulse.trouble(who, monotonic()):
            said = str(error) or "the store did not answer in time."
            self._record.tell(StoreTroubled(worker=self._worker, error=said))

    def answered(self, who: str) -> None:
        """Hear that the store did its work; say so if that was in doubt."""
        seconds = self._pulse.answer(who, monotonic())
        if seconds is not None:
            self._record.tell(StoreBack(worker=self._worker, seconds=seconds))

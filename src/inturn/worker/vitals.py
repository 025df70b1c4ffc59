"""A worker's vitals: keeps its pulse, and says once when the store went or came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from inturn.model.errors import (
    FunctionsDiffer,
    NoRights,
    SchemaMissing,
    SchemaTaken,
    SchemaTooNew,
    StoreUnavailable,
)
from inturn.model.worker_events import PruneFailed, StoreBack, StoreTroubled
from inturn.worker.pulse import TURN_SECONDS, Health, Pulse
from inturn.worker.record import Record

SILENT_SECONDS = 3.0
"""For so long a store may leave a question without an answer before it is said that it does."""

UNUSABLE = (NoRights, SchemaMissing, SchemaTaken, SchemaTooNew, FunctionsDiffer)
"""What a person has to mend. A worker that never got further ends with it; one that did goes on
asking, for what was taken away by mistake may come back."""


class Vitals:
    """Hears from whoever asks the store (``who``) how that went, on whichever thread."""

    def __init__(self, worker: str, record: Record, *, lease_seconds: float) -> None:
        self._worker, self._record = worker, record
        self._pulse = Pulse(lease_seconds)
        self._turns_silent: dict[str, int] = {}  # who waits for an answer, and for how many turns

    @property
    def is_troubled(self) -> bool:
        """Whether the store does not do its work, as far as anyone has noticed."""
        return self._pulse.is_troubled

    def health(self) -> Health:
        """Judge whether the worker works."""
        return self._pulse.health(monotonic())

    async def turn_over(self, why: Callable[[], str | None]) -> None:
        """Show for ever that the loop turns on which this runs, and say when the store is silent.

        ``why``: asked what keeps the store from answering.
        """
        while True:
            self._pulse.turn(monotonic())
            self._look_for_silence(why)
            await asyncio.sleep(TURN_SECONDS)

    @contextmanager
    def asking(self, who: str) -> Iterator[None]:
        """Ask the store something, on the loop that turns; a long silence is told as a trouble."""
        self._turns_silent[who] = 0
        try:
            yield
        finally:
            del self._turns_silent[who]

    def _look_for_silence(self, why: Callable[[], str | None]) -> None:
        """Count turns and not seconds: a loop that was blocked may have an answer and not know."""
        for who in self._turns_silent:
            self._turns_silent[who] += 1
            if self._turns_silent[who] * TURN_SECONDS > SILENT_SECONDS:
                known = why()
                cause = "" if known is None else f": {known}"
                said = f"the store has not answered for {SILENT_SECONDS:g} s{cause}."
                self.troubled(who, StoreUnavailable(said))

    def beaten(self) -> None:
        """Hear that the store took a heartbeat."""
        self._pulse.beat(monotonic())
        self.answered("beating")

    def troubled(self, who: str, error: Exception) -> None:
        """Say that the store could not do its work, once; what asked it tries again."""
        if self._pulse.trouble(who, monotonic()):
            said = str(error) or "the store did not answer in time."
            self._record.tell(StoreTroubled(worker=self._worker, error=said))

    def neglected(self, error: Exception) -> None:
        """Say that the store's upkeep failed; its work goes on."""
        self._record.tell(PruneFailed(worker=self._worker, error=str(error)))

    def given_up(self, who: str) -> None:
        """Hear that the store did not do its work, and will not be asked again."""
        self._pulse.trouble(who, monotonic())

    def answered(self, who: str) -> None:
        """Hear that the store did its work; say so if that was in doubt."""
        seconds = self._pulse.answer(who, monotonic())
        if seconds is not None:
            self._record.tell(StoreBack(worker=self._worker, seconds=seconds))

"""Waking a worker: when the store says that work may have come, and when a job has ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from inturn.model.errors import StoreError
from inturn.store.store import Store
from inturn.worker.ready import Ready
from inturn.worker.vitals import Vitals

WAIT_SECONDS = 0.5  # what becomes due later than a wait began is seen by the next
UNHEARD_SECONDS = 0.02  # between two waits, for as long as the second takes to begin
TROUBLE_SECONDS = 0.5


class Waking:
    """Tells a worker's loop, the one on which this is made, that there may be something to do."""

    def __init__(self, ready: Ready) -> None:
        self._ready = ready
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def rouse(self) -> None:
        """Let the worker look at what has ended; from any thread."""
        if threading.get_ident() == self._thread:
            self._ready.wake.set()
        else:
            self._loop.call_soon_threadsafe(self._ready.wake.set)

    def look_after(self, seconds: float) -> None:
        """Let the worker look into every queue in a while."""
        self._loop.call_later(seconds, self._ready.add_all)

    async def listen(self, store: Store, queues: Sequence[str], vitals: Vitals) -> None:
        """Hear for ever from the store that there may be work in one of the queues."""
        while True:
            try:
                if await store.wait(queues, timeout_seconds=WAIT_SECONDS):
                    if self._ready.is_full:
                        # A backlog that finds no slot would be news again and again.
                        await self._ready.until_one_is_drained()
                        # What came before the next wait hears it is seen a moment later.
                        self.look_after(UNHEARD_SECONDS)
                        continue
                    self._ready.add_all()
                vitals.answered("waiting")
            except StoreError as error:
                vitals.troubled("waiting", error)
                await asyncio.sleep(TROUBLE_SECONDS)

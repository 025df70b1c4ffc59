"""Background duties: calls those of an app, and lets one worker hold what is to be done alone."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from math import inf
from typing import TYPE_CHECKING

from inturn.log import log_duty_failed
from inturn.model.errors import StoreError
from inturn.queue.duty import Duty
from inturn.store.store import Store
from inturn.worker.heartbeat import lease_now

if TYPE_CHECKING:
    from inturn.worker.worker import Worker

HOLDS_PER_LEASE = 3  # how often in a lease a duty is held anew, or tried for


class DutyCalls:
    """Calls one duty for ever, on the worker's background thread.

    Its holder holds it between two calls, too, so that another worker does not call it too soon. A
    call that outlasts the hold is cancelled, for then another worker may do the duty.
    """

    def __init__(self, worker: Worker, store: Store, duty: Duty) -> None:
        self._worker, self._store, self._duty = worker, store, duty
        self._pause = worker.lease_seconds / HOLDS_PER_LEASE
        self._tried_at = self._held_until = self._due_at = -inf  # by ``lease_now``
        self._has_failed = False  # the last time it was called

    async def run(self, has_beaten: asyncio.Event) -> None:
        """Call it whenever it is due, from the worker's first heartbeat on."""
        await has_beaten.wait()
        while True:
            pause = await self.step()
            await asyncio.sleep(pause)

    async def step(self) -> float:
        """Hold the duty and call it, if that is due; return how long to wait then."""
        now = lease_now()
        if now >= self._tried_at + self._pause:
            await self._hold(now)
        if now < self._held_until and now >= self._due_at:
            self._due_at = lease_now() + await self._call()
        now = lease_now()
        if now < self._held_until:
            return max(0.0, min(self._due_at, self._tried_at + self._pause) - now)
        return self._pause

    async def _hold(self, now: float) -> None:
        duty, worker, seconds = self._duty, self._worker.name, self._worker.lease_seconds
        self._tried_at = now
        with suppress(StoreError):  # the heartbeat says so; what is held is held until its time
            is_ours = not duty.alone or await self._store.hold(
                duty.name, worker=worker, seconds=seconds
            )
            self._held_until = now + seconds if is_ours else -inf

    async def _call(self) -> float:
        """Call it; return in how many seconds to call it again."""
        duty, seconds = self._duty, self._held_until - lease_now()
        try:
            async with asyncio.timeout(seconds):
                until = datetime.now(UTC) + timedelta(seconds=seconds)
                asked = await duty.function(self._store, until)
        except Exception as error:
            if not self._has_failed:
                log_duty_failed(duty.name, error)
            self._has_failed = True
            return duty.every_seconds
        self._has_failed = False
        return duty.every_seconds if asked is None else max(0.0, asked)

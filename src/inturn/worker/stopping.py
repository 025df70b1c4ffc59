"""How a durable executor stops: when all has ended, or when its patience has."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic

from inturn.model.errors import ExecutorClosed, InturnError, StoreError
from inturn.queue.app import App
from inturn.worker.awaited import Awaited
from inturn.worker.parting import PART_SECONDS_MAX
from inturn.worker.waking import TROUBLE_SECONDS
from inturn.worker.worker import Worker

SAY_SECONDS_MAX = 1.0  # for a store that is asked why a job was left
SEE_OUT_SECONDS = 1.0  # between two looks at what an executor that has stopped left running


class Stopping:
    """The end of a durable executor's worker, on the worker's loop."""

    def __init__(self, app: App, awaited: Awaited) -> None:
        self._app, self._awaited = app, awaited
        self._seeing_out: asyncio.Task[None] | None = None

    async def stop(
        self, worker: Worker, running: asyncio.Future[None], patience: float | None
    ) -> None:
        """End the worker when everything has ended; or when patience has, with what it is at."""
        try:
            async with asyncio.timeout(patience):
                await self._all_ended(running, is_patient=patience is not None)
                worker.stop()
                await asyncio.shield(running)
        except TimeoutError:  # what is left is in the store
            worker.let_go()
            await asyncio.wait([running], timeout=PART_SECONDS_MAX)
            if running.done():
                await running
            elif self._seeing_out is None:
                self._seeing_out = asyncio.create_task(_see_out(worker, running))

    async def say_left(self) -> None:
        """Let the log say what was left, and why, if the store tells soon."""
        with suppress(InturnError, TimeoutError):
            async with asyncio.timeout(SAY_SECONDS_MAX):
                await self._app.run(self._awaited.say_left)

    async def _all_ended(self, running: asyncio.Future[None], *, is_patient: bool) -> None:
        """Wait for what was accepted, also while the store is away if the wait has an end."""
        while not running.done():
            try:
                return await self._app.run(self._awaited.all)
            except ExecutorClosed:  # the worker has ended
                return None
            except StoreError:
                if not is_patient:
                    raise
                await asyncio.sleep(TROUBLE_SECONDS)


async def _see_out(worker: Worker, running: asyncio.Future[None]) -> None:
    """Let handlers end that nobody waits for any more, and the store know how they did.

    Their leases are kept meanwhile, so that nobody else is at the same key. If the store cannot be
    told for as long as a lease lasts (it is away, or was closed here), what is left is given up:
    then the leases run out, and others take the jobs.
    """
    busy_at = monotonic()
    while not running.done():
        await asyncio.wait([running], timeout=SEE_OUT_SECONDS)
        if worker.running:
            busy_at = monotonic()
        elif monotonic() - busy_at > worker.lease_seconds:
            running.cancel()

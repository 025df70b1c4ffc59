"""The heartbeat: keeps a worker's leases and its name alive, whatever its handlers do."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import inturn
from inturn.model.errors import (
    NoRights,
    SchemaMissing,
    SchemaTaken,
    SchemaTooNew,
    StoreError,
    StoreUnavailable,
)
from inturn.model.lease import Lease, Reclaimed
from inturn.model.worker import WorkerView
from inturn.store.store import Store
from inturn.worker.processes import identity, is_gone

if TYPE_CHECKING:
    from inturn.worker.worker import Worker

BEATS_PER_LEASE = 3
BEAT_SECONDS_MAX = 5.0  # two small statements, and who looks sees soon that a worker is gone

SILENT_SECONDS = 3.0  # a beat without an answer for so long means that the store is in trouble

UNUSABLE = (NoRights, SchemaMissing, SchemaTaken, SchemaTooNew)
"""What a person has to mend. A worker whose first beat meets it ends with it; later it goes on
asking, for what was taken away by mistake may come back."""


class Heartbeat:
    """One step after another: extend, beat, and from time to time reclaim what others lost."""

    def __init__(self, worker: Worker, store: Store) -> None:
        self._worker, self._store = worker, store
        self._random = Random()
        self._sweep_in = 0.0
        self._is_open = False
        self.has_stepped, self.has_beaten = asyncio.Event(), asyncio.Event()
        self.error: StoreError | None = None  # of the last step

    @property
    def pause_seconds(self) -> float:
        """How long to wait until the next step: a sweep that is due before the beat is not late."""
        worker = self._worker
        beat = min(worker.lease_seconds / BEATS_PER_LEASE, worker.sweep_seconds, BEAT_SECONDS_MAX)
        return min(beat, self._sweep_in) if self._sweep_in > 0 else beat

    async def run(self) -> None:
        """Step for ever."""
        while True:
            await self.step()
            self.has_stepped.set()
            await asyncio.sleep(self.pause_seconds)

    async def step(self) -> None:
        """Do what is due; if the store cannot be reached, the next step does it."""
        worker = self._worker
        self._sweep_in -= self.pause_seconds  # before what may fail: else it would be short again
        silence = asyncio.get_running_loop().call_later(SILENT_SECONDS, self._say_silent)
        try:
            await self._do_what_is_due(worker)
        except StoreError as error:
            self.error = error
            worker.health.failed("heartbeat", error)
        else:
            self.error = None
            worker.health.beaten()
            self.has_beaten.set()
        finally:
            silence.cancel()

    def _say_silent(self) -> None:
        why = "" if self._store.trouble is None else f": {self._store.trouble}"
        said = f"the store has not answered for {SILENT_SECONDS:g} s{why}."
        self._worker.health.failed("heartbeat", StoreUnavailable(said))

    async def _do_what_is_due(self, worker: Worker) -> None:
        if not self._is_open:
            await self._store.open()
            await self._take_over()
            self._is_open = True
        began = lease_now()
        await self._extend(began)
        # A step that was held up might find its own worker's leases run out: the next sweeps.
        if self._sweep_in <= 0 and lease_now() - began < worker.lease_seconds / 2:
            # Not all workers at one moment.
            self._sweep_in = worker.sweep_seconds * (0.75 + self._random.random() / 2)
            self._post(await self._store.reclaim())
            # What was declared since the worker began, or of a queue that was dropped.
            await self._store.declare(worker.app.connections.declared.queues, missing_only=True)
            worker.inbox.append(await self._store.settings())
        await self._store.beat(view_of(worker))

    async def _take_over(self) -> None:
        """Take back at once what ran out, and what dead processes of this machine held.

        Before this worker beats: it may have the name of one of them.
        """
        named = {one.process for one in await self._store.workers() if one.process}
        gone = [one for one in named if is_gone(one)]  # and the kernel killed process=True
        while (found := await self._store.reclaim(gone=gone)).leases:
            self._post(found)

    async def _extend(self, began: float) -> None:
        leases = self._worker.runs.leases()
        if leases:
            seconds = self._worker.lease_seconds
            lost = await self._store.extend(leases, lease_seconds=seconds)
            gone = {(lease.token, lease.lane) for lease in lost}
            kept = [lease for lease in leases if (lease.token, lease.lane) not in gone]
            self._worker.runs.keep(kept, began, began + seconds)
            if lost:
                self._post(lost)

    def _post(self, found: Sequence[Lease] | Reclaimed) -> None:
        """Have the worker's next step hear what is lost, or was taken back from others."""
        if not isinstance(found, Reclaimed) or found.leases:
            self._worker.inbox.append(found)
            self._worker.runs.queues.rouse()


def view_of(worker: Worker) -> WorkerView:
    """Return a worker as others see it."""
    return WorkerView(
        id=worker.name,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=inturn.__version__,
        queues=tuple(worker.queues),
        kinds=worker.kinds,
        running=worker.runs.in_hand,
        process=identity(os.getpid()),
    )


lease_now = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""The clock by which a worker knows whether its leases are still its own. It goes on while the
machine sleeps, as the store's does: on macOS that is the monotonic one.
"""

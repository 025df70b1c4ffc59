"""A worker's presence: how others know that it lives, and what it hears from its heartbeat."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import inturn
from inturn.model import bounds
from inturn.model.admissible import check_name
from inturn.model.errors import StoreError
from inturn.model.ids import new_id
from inturn.model.lease import Lease, Reclaimed
from inturn.model.worker import WorkerView
from inturn.queue.app import App
from inturn.store.store import Store
from inturn.worker.heartbeat import Heartbeat, beating_elsewhere, beating_here
from inturn.worker.process import identity, is_gone
from inturn.worker.runs import Runs
from inturn.worker.stop import STOP_NOW_SECONDS
from inturn.worker.vitals import UNUSABLE, Vitals

LEAVE_SECONDS_MAX = 2.0  # for a store that does not answer when a worker begins or ends


class Presence:
    """What a heartbeat asks of a worker and tells it, from a thread of its own.

    ``lost`` and ``reclaimed`` are called on the worker's loop.
    """

    def __init__(
        self,
        app: App,
        name: str,
        *,
        queues: Sequence[str],
        runs: Runs,
        vitals: Vitals,
        lost: Callable[[Sequence[Lease]], None],
        reclaimed: Callable[[Reclaimed], None],
    ) -> None:
        self._app, self._name, self._queues = app, name, queues
        self._runs, self._vitals = runs, vitals
        self._lost, self._reclaimed = lost, reclaimed
        self._loop: asyncio.AbstractEventLoop

    @asynccontextmanager
    async def kept(
        self,
        store: Store,
        *,
        lease_seconds: float,
        sweep_seconds: float,
        is_hurried: Callable[[], bool],
    ) -> AsyncIterator[None]:
        """Be known as alive, with what is in hand, for the length of a block; then as gone."""
        self._loop = asyncio.get_running_loop()
        if not store.is_private:
            await self._take_over(store)
        await self._prove_rights(store)

        def make(store: Store) -> Heartbeat:
            return Heartbeat(store, self, lease_seconds=lease_seconds, sweep_seconds=sweep_seconds)

        beating: AbstractAsyncContextManager[None]
        if store.is_private:  # there is one store, and nobody else to take its jobs
            beating = beating_here(make(store))
        else:
            beating = beating_elsewhere(self._app.spare_store, make, is_hurried=is_hurried)
        try:
            async with beating:
                yield
        finally:
            try:
                async with asyncio.timeout(STOP_NOW_SECONDS if is_hurried() else LEAVE_SECONDS_MAX):
                    await store.leave(self._name)
            except (StoreError, TimeoutError):  # then it will look as if it had died
                self._vitals.given_up("leaving")

    async def _take_over(self, store: Store) -> None:
        """Take back at once what ran out, and what dead processes of this machine held.

        Before this worker beats: it may have the name of one of them.
        """
        try:
            async with asyncio.timeout(LEAVE_SECONDS_MAX):
                gone = await _gone(store)
                while (found := await store.reclaim(gone=gone)).leases:
                    self._reclaimed(found)
        except UNUSABLE:
            raise
        except (StoreError, TimeoutError):  # a sweep finds it when the leases have run out
            pass

    async def _prove_rights(self, store: Store) -> None:
        """Write what changes nothing, for a claim that finds nothing may need no right to write."""
        try:
            async with asyncio.timeout(LEAVE_SECONDS_MAX):
                await store.leave(self._name)
        except UNUSABLE:
            raise
        except (StoreError, TimeoutError):  # it is asked again, and for longer
            pass

    def leases(self) -> list[Lease]:
        """Return the leases to keep."""
        return self._runs.leases()

    def view(self) -> WorkerView:
        """Return the worker as others see it."""
        return WorkerView(
            id=self._name,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=inturn.__version__,
            queues=tuple(self._queues),
            kinds=tuple(sorted(self._app.jobs)),
            running=self._runs.in_hand,
            process=identity(os.getpid()),
        )

    def prolonged(self, leases: Iterable[Lease], asked_at: float, until: float) -> None:
        """Hear that leases are ours until a time."""
        self._runs.keep(leases, asked_at, until)

    def lost(self, leases: Sequence[Lease]) -> None:
        """Hear that leases are someone else's now."""
        self._loop.call_soon_threadsafe(self._lost, leases)

    def reclaimed(self, found: Reclaimed) -> None:
        """Hear that a sweep took jobs back: they may be claimed."""
        if found.leases:
            self._loop.call_soon_threadsafe(self._reclaimed, found)

    def troubled(self, error: StoreError) -> None:
        """Hear that the store could not do its work."""
        self._vitals.troubled("beating", error)

    def beaten(self) -> None:
        """Hear that the store answers."""
        self._vitals.beaten()

    def not_pruned(self, error: StoreError) -> None:
        """Hear that the store could not be pruned, which is no trouble for the jobs in hand."""
        self._vitals.neglected(error)


async def _gone(store: Store) -> list[str]:
    """Return the processes of workers that are gone for sure; the kernel killed their children."""
    named = {one.process for one in await store.workers() if one.process}
    return [one for one in named if is_gone(one)]


def named(name: str | None) -> str:
    """Return a worker's name, or one that nobody else has."""
    if name is None:
        name = f"{socket.gethostname()}-{os.getpid()}-{new_id()}"
    check_name("worker", name, bounds.WORKER_CHARS_MAX)
    return name

"""The heartbeat: keeps a worker's leases and its name alive, whatever its handlers do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Protocol

from inturn.model.errors import StoreError
from inturn.model.lease import Lease, Reclaimed
from inturn.model.worker import WorkerView
from inturn.store.store import Store
from inturn.worker.lease_clock import lease_now
from inturn.worker.upkeep import Upkeep

BEATS_PER_LEASE = 3
BEAT_SECONDS_MAX = 5.0  # two small statements, and who looks sees soon that a worker is gone
END_SECONDS_MAX = 2.0  # for a last step that the store does not answer


class Watched(Protocol):
    """What a heartbeat asks of a worker, and tells it. Called from the heartbeat's own thread."""

    def leases(self) -> Sequence[Lease]:
        """Return the leases to keep."""
        ...

    def view(self) -> WorkerView:
        """Return the worker as others see it."""
        ...

    def prolonged(self, leases: Iterable[Lease], asked_at: float, until: float) -> None:
        """Hear that the store, asked at a time, prolonged leases until another (``lease_now``)."""
        ...

    def lost(self, leases: Sequence[Lease]) -> None:
        """Hear that leases are someone else's now."""
        ...

    def reclaimed(self, found: Reclaimed) -> None:
        """Hear what a sweep took back."""
        ...

    def troubled(self, error: StoreError) -> None:
        """Hear that the store could not be reached."""
        ...

    def beaten(self) -> None:
        """Hear that a step was made, and that the store answered."""
        ...

    def not_pruned(self, error: StoreError) -> None:
        """Hear that the store could not be pruned."""
        ...


class Heartbeat:
    """One step after another: extend, beat, and from time to time reclaim what others lost."""

    def __init__(
        self, store: Store, watched: Watched, *, lease_seconds: float, sweep_seconds: float
    ) -> None:
        self._store, self._watched = store, watched
        self._lease_seconds, self._sweep_seconds = lease_seconds, sweep_seconds
        self._random = Random()
        self._sweep_in = 0.0

    @property
    def pause_seconds(self) -> float:
        """How long to wait until the next step: a sweep that is due before the beat is not late."""
        beat = min(self._lease_seconds / BEATS_PER_LEASE, self._sweep_seconds, BEAT_SECONDS_MAX)
        return min(beat, self._sweep_in) if self._sweep_in > 0 else beat

    async def step(self) -> None:
        """Do what is due."""
        self._sweep_in -= self.pause_seconds  # before what may fail: else it would be short again
        try:
            began = lease_now()
            leases = self._watched.leases()
            if leases:
                lost = await self._store.extend(leases, lease_seconds=self._lease_seconds)
                gone = {(lease.token, lease.lane) for lease in lost}
                kept = [lease for lease in leases if (lease.token, lease.lane) not in gone]
                self._watched.prolonged(kept, began, began + self._lease_seconds)
                if lost:
                    self._watched.lost(lost)
            # A step that was held up might find its own worker's leases run out: the next sweeps.
            if self._sweep_in <= 0 and lease_now() - began < self._lease_seconds / 2:
                # Not all workers at one moment.
                self._sweep_in = self._sweep_seconds * (0.75 + self._random.random() / 2)
                self._watched.reclaimed(await self._store.reclaim())
            await self._store.beat(self._watched.view())
            self._watched.beaten()
        except StoreError as error:
            self.trouble(error)

    def trouble(self, error: StoreError) -> None:
        """Tell the worker that the store could not be reached; the next step tries again."""
        self._watched.troubled(error)

    async def run(self, stopped: asyncio.Event) -> None:
        """Step until told to stop, and see to the store's upkeep beside it."""
        upkeep = asyncio.create_task(Upkeep(self._store, self._watched.not_pruned).run())
        try:
            while not stopped.is_set():
                await self.step()
                try:
                    async with asyncio.timeout(self.pause_seconds):
                        await stopped.wait()
                except TimeoutError:
                    pass
        finally:
            upkeep.cancel()
            await asyncio.gather(upkeep, return_exceptions=True)


@asynccontextmanager
async def beating_here(heartbeat: Heartbeat) -> AsyncIterator[None]:
    """Let a heartbeat beat on this loop."""
    stopped = asyncio.Event()
    beating = asyncio.create_task(heartbeat.run(stopped))
    try:
        yield
    finally:
        stopped.set()
        await beating


@asynccontextmanager
async def beating_elsewhere(
    open_store: Callable[[], Store],
    make: Callable[[Store], Heartbeat],
    *,
    is_hurried: Callable[[], bool],
) -> AsyncIterator[None]:
    """Let a heartbeat beat on a thread. ``is_hurried``: at the end, do not wait for its end."""
    heartbeat = HeartbeatThread(open_store, make)
    heartbeat.start()
    try:
        yield
    finally:
        if is_hurried():  # it may be waiting for a store that is away
            threading.Thread(target=heartbeat.stop, daemon=True).start()
        else:
            await asyncio.to_thread(heartbeat.stop, END_SECONDS_MAX)


class HeartbeatThread:
    """A heartbeat on a thread and a loop of its own, with a store of its own.

    A handler that blocks the worker's loop, or holds every thread, does not hold it up.
    """

    def __init__(self, open_store: Callable[[], Store], make: Callable[[Store], Heartbeat]) -> None:
        self._open_store, self._make = open_store, make
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="inturn-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()
        self._started.wait()

    def stop(self, seconds_max: float | None = None) -> None:
        """Stop, and wait until it has; or for a time, if it waits for a store that is away."""
        if self._loop is not None and self._stopped is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(seconds_max)

    def _run(self) -> None:
        asyncio.run(self._beat())

    async def _beat(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        store = self._open_store()
        heartbeat = self._make(store)
        while not self._stopped.is_set():
            try:
                await store.open()
                break
            except StoreError as error:
                heartbeat.trouble(error)
                await asyncio.sleep(min(1.0, heartbeat.pause_seconds))
        await heartbeat.run(self._stopped)
        await store.close()

"""A worker's background thread: what must go on whatever handlers do to the worker's loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

from inturn.log import log_duty_failed
from inturn.model.errors import StoreError
from inturn.model.worker_events import PruneFailed
from inturn.queue.declared import Duty
from inturn.store.store import Store
from inturn.worker.health import HealthServer
from inturn.worker.heartbeat import UNUSABLE, Heartbeat, lease_now
from inturn.worker.stop import STOP_NOW_SECONDS
from inturn.worker.watchdog import Watchdog

if TYPE_CHECKING:
    from inturn.worker.worker import Worker


FIRST_SECONDS_MAX = 2.0  # for the first beat, if the store does not answer
LEAVE_SECONDS_MAX = 2.0  # for a store that does not answer when a worker ends
END_SECONDS = 1.0  # more than that, until the thread is not waited for
PRUNE_SECONDS = 300.0


class Background:
    """One thread with a loop and a store of its own: heartbeat, watchdog, health, prunes, duties.

    What its coroutines find they write to ``worker.health``, or to the inbox that a step reads.
    """

    def __init__(self, worker: Worker, *, loop_seconds_max: float) -> None:
        self._worker = worker
        self.watchdog = Watchdog(worker.health, loop_seconds_max=loop_seconds_max)
        self.health_server: HealthServer | None = None
        self._loop: asyncio.AbstractEventLoop
        self._ended: asyncio.Event
        self._heartbeat: Heartbeat
        self._duties: set[str] = set()  # that are called

    # From the worker's loop

    def start(self) -> None:
        """Start the thread, which serves health from then on."""
        self._store: Store | None = None  # known when it begins
        self._tasks: list[asyncio.Task[None]] = []
        self._leave_seconds = LEAVE_SECONDS_MAX
        self._started, self._gone = threading.Event(), asyncio.Event()
        run = partial(self._run, asyncio.get_running_loop())
        threading.Thread(target=run, name="inturn-background", daemon=True).start()
        self._started.wait()

    async def begin(self, store: Store) -> None:
        """Begin all the rest, and wait for the first beat. ``store``: the worker's own.

        Raises what keeps the store from being used at all. A store that is away is tried again.
        """
        self.watchdog.watch(asyncio.get_running_loop())
        # In memory there is one store, and it serves every loop.
        self._store = store if store.is_private else self._worker.app.spare_store()
        beginning = asyncio.run_coroutine_threadsafe(self._begin(self._store), self._loop)
        await asyncio.wrap_future(beginning)

    def call_duties(self) -> None:
        """Call the duties of the app that are not called yet, from the first beat on."""
        self._loop.call_soon_threadsafe(self._call_duties)

    async def end(self, *, is_hurried: bool) -> None:
        """End it, and say that the worker is gone."""
        if is_hurried:
            self._leave_seconds = STOP_NOW_SECONDS
        self._loop.call_soon_threadsafe(self._ended.set)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._leave_seconds + END_SECONDS):
                await self._gone.wait()

    # On the thread

    def _run(self, workers_loop: asyncio.AbstractEventLoop) -> None:
        try:
            asyncio.run(self._live())
        finally:
            with suppress(RuntimeError):  # it was closed: nobody waits there
                workers_loop.call_soon_threadsafe(self._gone.set)

    async def _live(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as stack:
            if self.health_server is not None:
                await stack.enter_async_context(self.health_server.open())
            self._started.set()
            await self._ended.wait()
        for task in self._tasks:
            task.cancel()
        if self._store is not None:
            await self._leave(self._store)

    async def _begin(self, store: Store) -> None:
        self._heartbeat = heartbeat = Heartbeat(self._worker, store)
        self._spawn(self.watchdog.run())
        self._spawn(heartbeat.run())
        self._spawn(prune_for_ever(self._worker, store))
        self._call_duties()
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_SECONDS_MAX):
                await heartbeat.has_stepped.wait()
        if isinstance(heartbeat.error, UNUSABLE):
            raise heartbeat.error

    def _call_duties(self) -> None:
        assert self._store is not None
        for name, duty in self._worker.app.duties.items():
            if name not in self._duties:
                self._duties.add(name)
                calls = DutyCalls(self._worker, self._store, duty)
                self._spawn(calls.run(self._heartbeat.has_beaten))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _leave(self, store: Store) -> None:
        try:
            async with asyncio.timeout(self._leave_seconds):
                await asyncio.wait(self._tasks)
                await store.leave(self._worker.name)
        except (StoreError, TimeoutError):  # then it will look as if it had died
            pass
        if not store.is_private:
            await store.close()


async def prune_for_ever(worker: Worker, store: Store, random: Random | None = None) -> None:
    """Prune, first after a minute or two; no two workers at the same moment."""
    random = random or Random()
    await asyncio.sleep(PRUNE_SECONDS * random.uniform(0.2, 0.4))
    while True:
        try:
            await store.prune()
        except StoreError as error:  # the next one is finished
            worker.record.tell(PruneFailed(worker=worker.name, error=str(error)))
        await asyncio.sleep(PRUNE_SECONDS * random.uniform(0.75, 1.25))


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
            now = lease_now()  # the store may not have answered for a while
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

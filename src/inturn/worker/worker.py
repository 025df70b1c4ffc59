"""The worker: claims what it can start soon, runs it in order, and says what became of it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

from inturn.model import bounds, worker_events
from inturn.model.admissible import (
    check_name,
    check_number,
    check_whole,
    shown,
)
from inturn.model.errors import BadInput, StoreError, StoreReplaced, WorkerSpent
from inturn.model.ids import new_id
from inturn.queue.app import App
from inturn.queue.extensions import Extension
from inturn.queue.job import Job
from inturn.store.store import Store
from inturn.worker.attempt import Attempts, Observer
from inturn.worker.background import Background
from inturn.worker.health import HealthServer, WorkerHealth
from inturn.worker.process_pool import ChildPool
from inturn.worker.queues import TROUBLE_SECONDS, QueuesReady, QueuesServed
from inturn.worker.record import Record
from inturn.worker.runs import Runs
from inturn.worker.step import POLL_SECONDS, Found, Steps
from inturn.worker.stop import STOP_NOW_SECONDS, Stop


class Worker:
    """Runs the jobs of an app, until it is told to stop.

    - ``queues``: which to claim from; by default those that the app's jobs are declared on, and
      the nodes of the store if there are any, but none that is ``local``;
    - ``nodes``: nodes that it serves besides, be they local;
    - ``concurrency``: how many lanes, or jobs without a key, run at once;
    - ``lease_seconds``: how long after this worker died its jobs are taken back at the earliest;
    - ``sweep_seconds``: how often it looks for jobs that others lost;
    - ``loop_seconds_max``: how long the event loop may stand still before the log says where;
    - ``listeners``: called with each event of ``inturn.model.worker_events``;
    - ``observer``: called for each attempt that begins or fails in this process.

    It claims what it can start soon. A lane whose jobs turn out to take a second or more gives back
    those behind the one that runs, and so does a job without a key that found no slot for a second.

    A suspect, which was in hand when a worker died, runs with nothing else beside it until it has
    settled. A busy worker asks for suspects every few seconds, and claims nothing for a few seconds
    so as to be empty for one, the next time for twice as long; other work has at least half of the
    time (see ``Suspects``).
    """

    def __init__(
        self,
        app: App,
        *,
        queues: Iterable[str] | None = None,
        nodes: Iterable[str] = (),
        concurrency: int = 100,
        jobs_max: int = 2_000,
        lease_seconds: float = bounds.LEASE_SECONDS_DEFAULT,
        sweep_seconds: float = 10.0,
        loop_seconds_max: float = 1.0,
        name: str | None = None,
        listeners: Sequence[worker_events.Listener] = (),
        observer: Observer | None = None,
    ) -> None:
        self.app, self.name = checked_app(app), checked_name(name)
        self._served = QueuesServed(app, queues, nodes)
        self.queues = self._served.names
        check_whole("concurrency", concurrency, 1, bounds.RUNNING_MAX)
        check_whole("jobs_max", jobs_max, 1, bounds.CLAIM_JOBS_MAX)
        check_number("lease_seconds", lease_seconds, 0.001, bounds.LEASE_SECONDS_MAX)
        check_number("sweep_seconds", sweep_seconds, 0.001, bounds.LEASE_SECONDS_MAX)
        check_number("loop_seconds_max", loop_seconds_max, 0.001, bounds.LEASE_SECONDS_MAX)
        self.lease_seconds, self.sweep_seconds = float(lease_seconds), float(sweep_seconds)
        self.kinds: tuple[str, ...] = ()
        self.record = Record(self.name, listeners)
        self.health = WorkerHealth(self.name, self.record, lease_seconds=self.lease_seconds)
        self._background = Background(self, loop_seconds_max=float(loop_seconds_max))
        self._observer, self._random = observer, Random()
        self._in_processes: list[Job[Any, Any]] = []
        self._children = ChildPool(self._in_processes)
        self._ready = QueuesReady(self.queues)
        self.runs = Runs(self.name, {}, self._ready, lease_seconds=self.lease_seconds)
        self.steps = Steps(
            self.runs, self.record, self._served, concurrency=concurrency, jobs_max=jobs_max
        )
        self._add_jobs()
        self._has_looked = False  # for what is left, and found nothing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()  # to stop

    @property
    def inbox(self) -> deque[Found]:
        """What the background thread has found, for the next step."""
        return self.steps.inbox

    # Life

    def serve_health(self, *, file: Path | None, port: int | None, host: str) -> None:
        """Say how it does in a file and on a port, from when it begins until it ends."""
        self._background.health_server = HealthServer(self.health, file=file, port=port, host=host)

    async def run(self, *, until_empty: bool = False) -> None:
        """Work until told to stop; then release what has not started and finish what has.

        ``until_empty``: stop as well when nothing is left that may be run now. Cancelled, it gives
        back what runs, as by ``stop_now``. It runs once.
        """
        if until_empty:
            self.drain()
        async with self.begun():
            await self.work()

    @asynccontextmanager
    async def begun(self) -> AsyncIterator[None]:
        """Call the start hooks and beat for the first time, to ``work`` inside; then end it all.

        Raises what keeps the store from being used at all. A store that is away is tried again.
        """
        if self._loop is not None:
            raise WorkerSpent(self.name)
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.app.keep_open())
            store = await self.app.lend()
            await self._learn(store)
            stack.push_async_callback(self._end_background)
            self._background.start()
            stack.push_async_exit(self.app.hooks.stop)
            await self.app.hooks.start()
            stack.push_async_callback(self._children.stop)
            await self._children.start()
            self.steps.begin(store)
            listening = asyncio.create_task(self._ready.listen(store))
            stack.push_async_callback(_end_task, listening)
            await self._background.begin(store)
            stack.push_async_callback(self._leave)
            yield

    async def _learn(self, store: Store) -> None:
        """Hear which queues the store has, and attach the applications that some are of."""
        self.steps.serve(await store.settings())
        self._add_jobs()
        store = await self.app.lend()  # which is told what those declare
        self.steps.serve(await store.settings())

    def _add_jobs(self) -> None:
        """Make ready to run the app's jobs, those of applications that were attached as well."""
        for one in list(self.app.extensions.values()):
            if isinstance(one, Extension):
                one.worker_begins()
        for kind, job in self.app.jobs.items():
            if kind in self.runs.attempts:
                continue
            if job.in_process:
                self._in_processes.append(job)
            self.runs.attempts[kind] = Attempts(
                job,
                self._random,
                watchdog=self._background.watchdog,
                children=self._children if job.in_process else None,
                observer=self._observer,
            )
        self.kinds = self.steps.kinds = tuple(sorted(self.runs.attempts))

    def drain(self) -> None:
        """Stop as soon as nothing is left that may be run now. From any thread."""
        self._stop(Stop.DRAIN)

    def stop(self) -> None:
        """Take nothing more; from any thread, and from a signal handler."""
        self._stop(Stop.FINISH)

    def stop_now(self) -> None:
        """Take nothing more, wait for nothing, and give back what runs, its attempt uncounted.

        An ``async def`` is cancelled, a child process killed. A ``def`` on a thread cannot be:
        others run it a second later, so end the process when ``run`` has returned, which is a
        matter of seconds. From any thread, and from a signal handler.
        """
        self._stop(Stop.NOW)

    def _stop(self, how: Stop) -> None:
        self.runs.stop = max(self.runs.stop, how)
        self._ready.rouse()
        if self._loop is not None and how >= Stop.FINISH:
            with suppress(RuntimeError):  # it was closed: there is nothing left to stop
                self._loop.call_soon_threadsafe(self._told.set)

    @property
    def running(self) -> int:
        """How many lanes, or jobs without a key, run at this moment."""
        return self.steps.running

    async def work(self) -> None:
        """Step until all is done; or, told to stop, until the step under way is or a moment over.

        Cancelled, this does not cut off a step: a store that was asked for jobs may have given
        them, and what was settled it may know already.
        """
        working = asyncio.create_task(self._work(), name="inturn-worker")
        cancelled: asyncio.CancelledError | None = None
        told = asyncio.create_task(self._told.wait(), name="inturn-stop")
        try:
            while not working.done():
                seconds = STOP_NOW_SECONDS if told.done() else None
                try:
                    wanted = {working} if told.done() else {working, told}
                    await asyncio.wait(wanted, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError as error:
                    cancelled = cancelled or error
                    self.stop_now()
                    self._told.set()
                    continue
                is_late = seconds is not None and not working.done()
                if is_late and (self.runs.stop is Stop.NOW or self.steps.is_empty):
                    self.health.failed("step")  # it does not answer, and nobody waits for it
                    working.cancel()
                    await asyncio.wait([working])
        finally:
            told.cancel()
        if not working.cancelled():
            working.result()
        elif self.runs.stop < Stop.FINISH:  # a handler, say, has cancelled all there is
            self.stop_now()
        if cancelled is not None:
            raise cancelled

    async def _work(self) -> None:
        """Step, and wait for something to do when there was nothing to do, until all is done."""
        runs, wake = self.runs, self._ready.wake
        while not (runs.stop is Stop.NOW or (runs.stop is Stop.FINISH and self.steps.is_empty)):
            wake.clear()
            if len(self.app.jobs) > len(self.kinds):  # of an application attached meanwhile
                self._add_jobs()
                self._background.call_duties()
                self._ready.add_all()
            try:
                has_worked = await self.steps.step()
                if has_worked:
                    self.health.answered("step")
                if has_worked or await self._look_for_end():
                    continue
            except StoreError as error:
                self.health.failed("step", error)
                if isinstance(error, StoreReplaced) and runs.stop is Stop.FINISH:
                    self.stop_now()  # its file does not come back while it is open
                    continue
                await asyncio.sleep(TROUBLE_SECONDS)
                continue
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await wake.wait()
            except TimeoutError:
                self._ready.add_all()

    async def _leave(self) -> None:
        """Told to stop at once, give back what is in hand, if the store answers soon."""
        if self.runs.stop is Stop.NOW:
            await self.steps.give_up()
            try:
                async with asyncio.timeout(STOP_NOW_SECONDS):
                    await self.steps.settle_all()
            except (StoreError, TimeoutError) as error:
                self.health.failed("step", error)
        await self.steps.end()

    async def _end_background(self) -> None:
        is_hurried = self.runs.stop is Stop.NOW or self.health.is_troubled
        await self._background.end(is_hurried=is_hurried)

    async def _look_for_end(self) -> bool:
        """Stop if it is to stop when nothing is left, and has looked twice; say whether to go on.

        Twice, for something may come between: what was given back, or a suspect. False: there is
        nothing to do but to wait.
        """
        if self.runs.stop is not Stop.DRAIN or self._ready or not self.steps.is_empty:
            return False
        if self._has_looked and not self.steps.has_claimed:
            self.stop()
            return True
        self._has_looked, self.steps.has_claimed = True, False
        # No sweep may have come since leases ran out.
        self.steps.take_back(await self.runs.store.reclaim())
        return True


async def _end_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def checked_app(app: object) -> App:
    """Return an app, or refuse what is none."""
    if isinstance(app, App):
        return app
    raise BadInput(
        f"{shown(app)} is no app. Give the inturn.App whose jobs are to run, with Worker(app) or "
        f"Executor(app=app)."
    )


def checked_name(name: str | None) -> str:
    """Return a worker's name, or one that nobody else has."""
    if name is None:
        name = f"{socket.gethostname()}-{os.getpid()}-{new_id()}"
    check_name("worker", name, bounds.WORKER_CHARS_MAX)
    return name

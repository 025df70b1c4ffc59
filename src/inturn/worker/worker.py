"""The worker: claims what it can start soon, runs it in order, and says what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from random import Random

from inturn.model import bounds, worker_events
from inturn.model.admissible import check_number, check_queues, check_whole, listed
from inturn.model.errors import StoreError, WorkerSpent
from inturn.queue.app import App
from inturn.worker.attempt import Attempts, Observer
from inturn.worker.beside import beside
from inturn.worker.declared import checked_app, codes_of, queues_of
from inturn.worker.presence import Presence, named
from inturn.worker.process_pool import ChildPool
from inturn.worker.queues_ready import TROUBLE_SECONDS, QueuesReady
from inturn.worker.record import Record
from inturn.worker.runs import Runs
from inturn.worker.step import POLL_SECONDS, Steps
from inturn.worker.stop import STOP_NOW_SECONDS, Stop
from inturn.worker.vitals import UNUSABLE, Vitals
from inturn.worker.watch import Watch


class Worker:
    """Runs the jobs of an app, until it is told to stop.

    - ``queues``: which to claim from; by default those that the app's jobs are declared on;
    - ``concurrency``: how many lanes, or jobs without a key, run at once;
    - ``lease_seconds``: how long after this worker died its jobs are taken back at the earliest;
    - ``sweep_seconds``: how often it looks for jobs that others lost;
    - ``loop_seconds_max``: how long a handler may block the event loop before the log names it;
    - ``listeners``: called with each event of ``inturn.model.worker_events``;
    - ``observer``: told of each attempt that begins or fails in this process.

    It claims what it can start soon. A lane whose jobs turn out to take a second or more gives back
    those behind the one that runs, and so does a job without a key that found no slot for a second.

    A suspect, which was in hand when a worker died, runs with nothing else beside it until it has
    settled. A busy worker asks for suspects every few seconds, and claims nothing for a few seconds
    so as to be empty for one; other work has at least half of the time (see ``Suspects``).
    """

    def __init__(
        self,
        app: App,
        *,
        queues: Iterable[str] | None = None,
        concurrency: int = 100,
        jobs_max: int = 2_000,
        lease_seconds: float = bounds.LEASE_SECONDS_DEFAULT,
        sweep_seconds: float = 10.0,
        loop_seconds_max: float = 1.0,
        name: str | None = None,
        listeners: Sequence[worker_events.Listener] = (),
        observer: Observer | None = None,
    ) -> None:
        self.app, self.name = checked_app(app), named(name)
        self.queues = queues_of(app) if queues is None else listed("queues", queues)
        check_queues(self.queues)
        check_whole("concurrency", concurrency, 1, bounds.RUNNING_MAX)
        check_whole("jobs_max", jobs_max, 1, bounds.CLAIM_JOBS_MAX)
        check_number("lease_seconds", lease_seconds, 0.001, bounds.LEASE_SECONDS_MAX)
        check_number("sweep_seconds", sweep_seconds, 0.001, bounds.LEASE_SECONDS_MAX)
        check_number("loop_seconds_max", loop_seconds_max, 0.001, bounds.LEASE_SECONDS_MAX)
        self.lease_seconds, self.sweep_seconds = float(lease_seconds), float(sweep_seconds)
        self.kinds = tuple(sorted(app.jobs))
        self._watch = Watch(codes_of(*app.jobs.values()), loop_seconds_max=float(loop_seconds_max))
        in_processes = [job for job in app.jobs.values() if job.in_process]
        self._children = ChildPool(in_processes)
        random = Random()
        attempts = {
            kind: Attempts(
                job,
                random,
                watch=self._watch,
                children=self._children if job.in_process else None,
                observer=observer,
            )
            for kind, job in app.jobs.items()
        }
        self._ready = QueuesReady(self.queues)
        self._runs = Runs(self.name, attempts, self._ready, lease_seconds=self.lease_seconds)
        self.record = Record(self.name, listeners)
        self.steps = Steps(
            self._runs,
            self.record,
            names=self.queues,
            kinds=self.kinds,
            concurrency=concurrency,
            jobs_max=jobs_max,
        )
        self.vitals = Vitals(self.name, self.record, lease_seconds=self.lease_seconds)
        self.presence = Presence(
            app,
            self.name,
            queues=self.queues,
            runs=self._runs,
            vitals=self.vitals,
            lost=self.steps.lose,
            reclaimed=self.steps.take_back,
        )
        self._began: Callable[[], None] | None = None  # until it was called
        self._has_looked = False  # for what is left, and found nothing
        self._is_running = self._has_begun = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()  # to stop

    # Life

    async def run(
        self,
        *,
        until_empty: bool = False,
        began: Callable[[], None] = lambda: None,
    ) -> None:
        """Work until told to stop; then release what has not started and finish what has.

        ``until_empty``: stop as well when nothing is left that may be run now. ``began``: called
        when the start hooks have run and work begins: the store has answered the first claim, or is
        to be asked again; one that may never be used is an error. Cancelled, it gives back what
        runs, as by ``stop_now``. It runs once.
        """
        if self._is_running or self._has_begun:
            raise WorkerSpent(self.name)
        self._is_running = True
        self._began = began
        if until_empty:
            self._stop(Stop.DRAIN)
        self._loop = asyncio.get_running_loop()
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self.app.keep_open())
                store = await self.app.lend()
                stack.push_async_exit(self.app.hooks.part)
                await self.app.hooks.start()
                stack.push_async_callback(self._children.stop)
                await self._children.start()
                self._has_begun = True  # things are started that cannot be started twice
                self.steps.begin(store)
                stack.enter_context(self._watch.watching())
                await stack.enter_async_context(
                    beside(  # first: it may take a while to connect, and to end
                        self._ready.listen(store, self.vitals),
                        self.vitals.turn_over(lambda: store.trouble),
                    )
                )
                await stack.enter_async_context(
                    self.presence.kept(
                        store,
                        lease_seconds=self.lease_seconds,
                        sweep_seconds=self.sweep_seconds,
                        is_hurried=lambda: self._runs.stop is Stop.NOW or self.vitals.is_troubled,
                    )
                )
                stack.push_async_callback(self._leave)
                await self._work_on()
        finally:
            self._is_running = False

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
        self._runs.stop = max(self._runs.stop, how)
        self._ready.rouse()
        if self._loop is not None and how >= Stop.FINISH:
            with suppress(RuntimeError):  # it was closed: there is nothing left to stop
                self._loop.call_soon_threadsafe(self._told.set)

    @property
    def running(self) -> int:
        """How many lanes, or jobs without a key, run at this moment."""
        return self.steps.running

    async def _work_on(self) -> None:
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
                if is_late and (self._runs.stop is Stop.NOW or self.steps.is_empty):
                    self.vitals.given_up("settling")  # it does not answer, and nobody waits for it
                    working.cancel()
                    await asyncio.wait([working])
        finally:
            told.cancel()
        if not working.cancelled():
            working.result()
        elif self._runs.stop < Stop.FINISH:  # a handler, say, has cancelled all there is
            self.stop_now()
        self._begin()  # told to stop before it had asked for anything
        if cancelled is not None:
            raise cancelled

    async def _work(self) -> None:
        """Step, and wait for something to do when there was nothing to do, until all is done."""
        runs, wake = self._runs, self._ready.wake
        while not (runs.stop is Stop.NOW or (runs.stop is Stop.FINISH and self.steps.is_empty)):
            wake.clear()
            try:
                with self.vitals.asking("settling"):
                    has_worked = await self.steps.step()
                if has_worked:
                    self.vitals.answered("settling")
                    self._begin()
                if has_worked or await self._look_for_end():
                    continue
            except StoreError as error:
                if self._began is not None and isinstance(error, UNUSABLE):
                    raise
                self._begin()
                self.vitals.troubled("settling", error)
                await asyncio.sleep(TROUBLE_SECONDS)
                continue
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await wake.wait()
            except TimeoutError:
                self._ready.add_all()

    async def _leave(self) -> None:
        """Told to stop at once, give back what is in hand, if the store answers soon."""
        if self._runs.stop is Stop.NOW:
            await self.steps.give_up()
            try:
                async with asyncio.timeout(STOP_NOW_SECONDS):
                    await self.steps.settle_all()
            except (StoreError, TimeoutError) as error:
                self.vitals.troubled("settling", error)
        await self.steps.end()

    def _begin(self) -> None:
        """Say that work begins, once."""
        began, self._began = self._began, None
        if began is not None:
            began()

    async def _look_for_end(self) -> bool:
        """Stop if it is to stop when nothing is left, and has looked twice; say whether to go on.

        Twice, for something may come between: what was given back, or a suspect. False: there is
        nothing to do but to wait.
        """
        if self._runs.stop is not Stop.DRAIN or self._ready or not self.steps.is_empty:
            return False
        if self._has_looked and not self.steps.has_claimed:
            self.stop()
            return True
        self._has_looked, self.steps.has_claimed = True, False
        store = await self.app.lend()
        self.steps.take_back(await store.reclaim())  # no sweep may have come since leases ran out
        return True

"""The worker: claims what it can start soon, runs it in order, and says what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from random import Random
from time import monotonic, perf_counter

from inturn.executor import Executor
from inturn.model import bounds, worker_events
from inturn.model.admissible import check_number, check_queues, check_whole, listed
from inturn.model.errors import StoreError
from inturn.model.job import LeasedJob
from inturn.model.lease import Claim, Lease, Reclaimed
from inturn.policy.settlement import Settlement
from inturn.policy.verdict import Retry
from inturn.queue.app import App
from inturn.worker.attempt import Attempts, Observer
from inturn.worker.beside import beside
from inturn.worker.declared import checked_app, codes_of, queues_of
from inturn.worker.hands import SLOW_SECONDS, Hands
from inturn.worker.last_look import LastLook
from inturn.worker.lease_clock import lease_now
from inturn.worker.parting import PART_SECONDS_MAX
from inturn.worker.prefetch import Prefetch
from inturn.worker.presence import Presence, named
from inturn.worker.process_pool import ChildPool
from inturn.worker.quarantine import Quarantine
from inturn.worker.ready import Ready
from inturn.worker.record import Record
from inturn.worker.runs import Run
from inturn.worker.spent import OneRun
from inturn.worker.telling import Telling
from inturn.worker.uncut import uncut
from inturn.worker.vitals import UNUSABLE, Vitals
from inturn.worker.waking import TROUBLE_SECONDS, Waking
from inturn.worker.watch import Watch
from inturn.worker.way import LeaseWay

POLL_SECONDS = 2.0


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
    settled. A busy worker asks for suspects every few seconds, and takes nothing new for the sake
    of one until it is empty; other work has at least half of the time (see ``Quarantine``).
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
        self._concurrency, self._jobs_max = concurrency, jobs_max
        self._prefetch = Prefetch(concurrency, jobs_max)
        self._quarantine = Quarantine(self.queues)
        self._watch = Watch(codes_of(*app.jobs.values()), loop_seconds_max=float(loop_seconds_max))
        in_processes = [job for job in app.jobs.values() if job.in_process]
        self._children = ChildPool(in_processes)
        random = Random()
        self._attempts = {
            kind: Attempts(job, random, watch=self._watch, observer=observer)
            for kind, job in app.jobs.items()
        }
        self._hands = Hands(
            self._attempts,
            {job.kind: self._children for job in in_processes},
            make_way=self._make_way,
            rouse=self._rouse,
        )
        self._runs = self._hands.runs
        self._ready = Ready(self.queues)
        self._busy_since = 0.0  # or since when jobs have last been seen to end
        self._gives_back_at = 0.0
        self.record = Record(self.name, listeners)
        self.vitals = Vitals(self.name, self.record, lease_seconds=self.lease_seconds)
        self.presence = Presence(
            app,
            self.name,
            queues=self.queues,
            runs=self._runs,
            vitals=self.vitals,
            lost=self._lose,
            reclaimed=self._take_back,
        )
        self._at_once, self._last_look = False, LastLook()
        self._began: Callable[[], None] | None = None  # until it was called
        self._limit: asyncio.Timeout | None = None
        self._once = OneRun(self.name)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waking: Waking | None = None

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
        self._once.enter()
        until_empty = until_empty or self._last_look.is_wanted
        self._last_look = LastLook(until_empty=until_empty)
        self._began = began
        self._loop = asyncio.get_running_loop()
        waking = self._waking = Waking(self._ready)
        async with AsyncExitStack() as stack:
            stack.callback(self._once.leave)
            await stack.enter_async_context(self.app.keep_open())
            self._store = await self.app.lend()
            self._telling = Telling(
                self._store,
                self.name,
                told=self._told,
                refused=self._refused,
                doubted=self._doubt,
                rest=self._runs.rest,
                volume=self._hands.volume,
            )
            stack.push_async_exit(self.app.hooks.part)
            await self.app.hooks.start()
            stack.push_async_callback(self._children.stop)
            await self._children.start()
            self._once.begin()
            stack.enter_context(self._watch.watching())
            await stack.enter_async_context(
                beside(  # first: it may take a while to connect, and to end
                    waking.listen(self._store, self.queues, self.vitals),
                    self.vitals.turn_over(lambda: self._store.trouble),
                )
            )
            await stack.enter_async_context(self._kept())
            executor = Executor(
                shards=1, slots=self._concurrency, queue_size=self._jobs_max, max_attempts=1
            )
            executor.start()
            self._hands.executor = executor
            stack.push_async_callback(self._leave)
            await uncut(self._hands.loop_end.begin(self._work_on()), self.stop_now)
            self._begin()  # told to stop before it had asked for anything

    def stop(self) -> None:
        """Take nothing more; from any thread, and from a signal handler."""
        self._hands.is_stopping = True
        self._rouse()
        if self._loop is not None:
            with suppress(RuntimeError):  # it was closed: there is nothing left to stop
                self._loop.call_soon_threadsafe(self._hurry_if_idle)

    def stop_now(self) -> None:
        """Take nothing more, wait for nothing, and give back what runs, its attempt uncounted.

        An ``async def`` is cancelled, a child process killed. A ``def`` on a thread cannot be:
        others run it a second later, so end the process when ``run`` has returned, which is a
        matter of seconds. From any thread, and from a signal handler.
        """
        self._at_once = True
        self.stop()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._hurry)

    def drain(self) -> None:
        """Stop as soon as nothing is left that may be run now. From any thread."""
        self._last_look.is_wanted = True
        self._rouse()

    @property
    def running(self) -> int:
        """How many lanes, or jobs without a key, run at this moment."""
        return self._hands.running

    @property
    def keys_busy(self) -> int:
        """How many lanes, or jobs without a key, run or wait for a slot."""
        return self._hands.keys_busy

    def _hurry(self) -> None:
        assert self._loop is not None
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(self._loop.time() + PART_SECONDS_MAX)

    def _hurry_if_idle(self) -> None:
        """Wait no longer than a moment for a store that is asked for jobs nobody will start."""
        if self._limit is not None and self._is_done():
            self._hurry()

    async def _work_on(self) -> None:
        """Step until all is done; or, told to stop at once, until this step is or a moment over."""
        try:
            async with asyncio.timeout(None) as self._limit:
                while not (self._hands.is_stopping and (self._at_once or self._is_done())):
                    await self._work()
        except TimeoutError:
            if self._limit is None or not self._limit.expired():
                raise
            self.vitals.given_up("settling")
        except asyncio.CancelledError:
            self._at_once = True  # whoever cancels waits for nothing: give back what is in hand
            raise
        finally:
            self._limit = None

    async def _leave(self) -> None:
        """Let what runs end; or, told to stop at once, give it back if the store answers soon."""
        if not self._at_once:
            await self._hands.finish()
            self._collect()  # of what was lost: whether its own transaction had settled it
            return
        await self._hands.part()
        self._collect()
        self._telling.add(self._runs.settlements())
        try:
            async with asyncio.timeout(PART_SECONDS_MAX):
                while self._telling:
                    await self._telling.settle()
        except (StoreError, TimeoutError) as error:
            self.vitals.troubled("settling", error)
        await self._hands.end()

    def _is_done(self) -> bool:
        runs = self._runs
        return not (runs.in_hand or runs.unsaid or self._hands.has_more or self._telling)

    async def _work(self) -> None:
        """Make one step, and wait for something to do if it had nothing to do."""
        self._ready.wake.clear()
        try:
            with self.vitals.asking("settling"):
                has_worked = await self.step()
            if has_worked:
                self.vitals.answered("settling")
            if has_worked or await self._look_for_end():
                return
        except StoreError as error:
            if self._began is not None and isinstance(error, UNUSABLE):
                raise
            self._begin()
            self.vitals.troubled("settling", error)
            await asyncio.sleep(TROUBLE_SECONDS)
            return
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._ready.wake.wait()
        except TimeoutError:
            self._ready.add_all()

    def _begin(self) -> None:
        """Say that work begins, once."""
        began, self._began = self._began, None
        if began is not None:
            began()

    async def _look_for_end(self) -> bool:
        """Stop if it is to stop when nothing is left, and has looked twice; say whether to go on.

        False: there is nothing to do but to wait.
        """
        if not (self._last_look.is_wanted and self._is_done()) or self._ready:
            return False
        if self._last_look.is_last():
            self.stop()
            return True
        self._take_back(await self._store.reclaim())  # no sweep may have come since leases ran out
        return True

    async def step(self) -> bool:
        """Settle what has ended and claim what can be started; say whether anything was done."""
        now = monotonic()
        self._give_back(now)
        self._collect()
        for one in self._runs.lanes_ended():
            self._ready.add(one.queue)  # the lane may have more, and nobody would say so
        self._telling.add(self._runs.settlements())
        if self._hands.has_shed and not self._telling:  # the store has them back
            self._hands.has_shed = False
            self._ready.add_all()
        queue = self._next_queue(now)
        wanted = 0
        if queue is not None and not self._hands.volume.is_full:
            wanted = self._prefetch.wanted(self._runs.in_hand, self._hands.keys_busy)
        if queue is not None and wanted:
            await self._claim(queue, wanted, now)
        elif self._telling:
            await self._telling.settle()
        else:
            return False
        return True

    # Claiming

    def _next_queue(self, now: float) -> str | None:
        """Return the queue to claim from, if anything may be claimed."""
        quarantine, is_empty = self._quarantine, self._hands.is_empty
        if self._hands.is_stopping:
            return None
        if quarantine.is_closed(now, is_empty=is_empty, has_others=bool(self._ready)):
            return None
        return quarantine.next(now) or self._ready.next()

    async def _claim(self, queue: str, wanted: int, now: float) -> None:
        asks, was_empty = self._quarantine.asks(queue, now), self._hands.is_empty
        news, asked_at = self._ready.news, lease_now()
        wanted = 1 if asks else min(wanted, bounds.CLAIM_JOBS_MAX)
        claims = await self._telling.turn(
            queue,
            jobs_max=wanted,
            lease_seconds=self.lease_seconds,
            kinds=self.kinds,
            suspects_max=int(asks),
        )
        if claims is None:  # nothing was claimed, whatever there is
            self._ready.add_all()
            return
        self._begin()
        is_drained = sum(len(claim.jobs) for claim in claims) < wanted
        if is_drained:
            self._ready.remove(queue, news=news)
        if asks and not self._admit(queue, claims, now, was_empty=was_empty):
            return
        if claims:
            if self._limit is not None and not self._at_once:
                self._limit.reschedule(None)  # told to stop meanwhile: they are to be given back
            self._prefetch.claimed([job.payload for claim in claims for job in claim.jobs])
            self._last_look.found()
            if was_empty:
                self._busy_since = perf_counter()
            runs = await self._hands.begin(claims, kept_until=asked_at + self.lease_seconds)
            self._see_turn(sum(len(claim.jobs) for claim in claims))
            if asks and claims[0].lease.alone:
                self._quarantine.take(runs[0], now)

    def _see_turn(self, jobs: int) -> None:
        """Find out how long what was just begun takes until all that has a slot was started."""
        began = perf_counter()

        def turned() -> None:
            self._prefetch.turned(jobs, perf_counter() - began)
            self._rouse()

        self._hands.when_started(turned)

    def _admit(self, queue: str, claims: Sequence[Claim], now: float, *, was_empty: bool) -> bool:
        """Say whether what was claimed may start: a suspect does not when something else runs."""
        if not (claims and claims[0].lease.alone):
            self._quarantine.found_none(queue, now)
        elif not was_empty:
            self._telling.add([Settlement.release(claims[0])])
            self._quarantine.found(queue, now)
            return False
        return True

    # What has ended

    def _collect(self) -> None:
        count, settled, lost, ran, chars = self._hands.collect()
        self.record.counts.done += len(settled)
        self.record.lost(lost)
        for run in settled:
            self._quarantine.end(run)
        if count:
            now = perf_counter()
            self._prefetch.ended(ran, now - self._busy_since)  # not what was only given back
            self._prefetch.returned(ran, chars)
            self._busy_since = now

    def _give_back(self, now: float) -> None:
        """Give back what will not start: soon, or at all."""
        if self._hands.is_stopping:
            self._hands.give_back(claimed_before=now)
        elif now >= self._gives_back_at:
            self._gives_back_at = now + SLOW_SECONDS / 2
            if self._hands.give_back(claimed_before=now - SLOW_SECONDS):
                self._prefetch.slowed()

    def _told(self, settlement: Settlement) -> None:
        """Hear that the store has taken a settlement."""
        self.record.settled([settlement])
        self._spoken(settlement)

    def _refused(self, settlements: Sequence[Settlement]) -> None:
        """Hear that the store would not have settlements: they are someone else's to make."""
        self.record.lost(sum(len(one.outcomes) for one in settlements))
        for settlement in settlements:
            self._spoken(settlement)

    def _spoken(self, settlement: Settlement) -> None:
        self._runs.settled(settlement)
        run = self._runs.find(settlement.lease)
        if run is not None:
            run.tell(len(settlement.outcomes))
        suspect = self._quarantine.suspect
        if suspect is not None and suspect.lease.token == settlement.lease.token:
            self._quarantine.end(suspect)
        assert self._waking is not None
        for outcome in settlement.outcomes:
            if type(outcome.verdict) is Retry:  # look again when it is due
                delay = min(outcome.verdict.delay_seconds, POLL_SECONDS)
                self._waking.look_after(delay + 0.001)

    async def _doubt(self, tokens: Iterable[int]) -> None:
        """Find out which leases are lost for good."""
        doubtful = set(tokens)
        leases = [lease for lease in self._runs.leases() if lease.token in doubtful]
        if leases:
            self._lose(await self._store.extend(leases, lease_seconds=self.lease_seconds))

    def _lose(self, leases: Iterable[Lease]) -> None:
        """What has not started under a lost lease must not start, and what runs must end."""
        lost = self._runs.lose(leases)
        for run in lost:
            self._quarantine.end(run)
        self.record.lost(*self._hands.lose(lost))

    def _take_back(self, found: Reclaimed) -> None:
        """Hear that a sweep took jobs back from others."""
        self.record.buried(found.buried)
        self._quarantine.look_soon()
        self._ready.add_all()

    def _kept(self) -> AbstractAsyncContextManager[None]:
        return self.presence.kept(
            self._store,
            lease_seconds=self.lease_seconds,
            sweep_seconds=self.sweep_seconds,
            is_hurried=lambda: self._at_once or self.vitals.is_troubled,
        )

    def _rouse(self) -> None:
        if self._waking is not None:
            self._waking.rouse()

    def _make_way(self, run: Run, job: LeasedJob) -> LeaseWay:
        return LeaseWay(self._store, self.name, run, job, self.lease_seconds, self.app)

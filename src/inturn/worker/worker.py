"""The worker: claims what it can start soon, runs it in order, and says what became of it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from random import Random
from time import perf_counter
from typing import Any

import inturn
from inturn.executor import Executor
from inturn.executor.ticket import LocalTicket, State
from inturn.model import bounds, worker_events
from inturn.model.admissible import check_name, check_number, check_queues, check_whole, listed
from inturn.model.errors import LeaseLost, StoreError
from inturn.model.ids import new_id
from inturn.model.job import LeasedJob
from inturn.model.lease import Claim, Lease, Reclaimed
from inturn.model.worker import WorkerView
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Done, Retry
from inturn.queue.app import App
from inturn.store.address import connect
from inturn.store.protocol import Store
from inturn.worker.attempt import Attempts
from inturn.worker.heartbeat import Heartbeat, HeartbeatThread
from inturn.worker.parting import PART_SECONDS_MAX, cancel_all, given_back
from inturn.worker.prefetch import Prefetch
from inturn.worker.record import Record
from inturn.worker.runs import Run, Runs, released
from inturn.worker.vitals import Vitals
from inturn.worker.way import LeaseWay

POLL_SECONDS = 2.0
WAIT_SECONDS = 0.5  # what becomes due later than a wait began is seen by the next
TROUBLE_SECONDS = 0.5
OPEN_KEYS = 4096


class Worker:
    """Runs the jobs of an app, until it is told to stop.

    - ``queues``: which to claim from; by default those that the app's jobs are declared on;
    - ``slots``: how many lanes, or jobs without a key, run at once;
    - ``lease_seconds``: how long after this worker died its jobs are taken back at the earliest;
    - ``sweep_seconds``: how often it looks for jobs that others lost;
    - ``listeners``: called with each event of ``inturn.model.worker_events``.
    """

    def __init__(
        self,
        app: App,
        *,
        queues: Iterable[str] | None = None,
        slots: int = 100,
        jobs_max: int = 2_000,
        lease_seconds: float = bounds.LEASE_SECONDS_DEFAULT,
        sweep_seconds: float = 10.0,
        name: str | None = None,
        listeners: Sequence[worker_events.Listener] = (),
    ) -> None:
        self.app = app
        self.queues = _queues_of(app) if queues is None else listed("queues", queues)
        check_queues(self.queues)
        check_whole("slots", slots, 1, bounds.RUNNING_MAX)
        check_whole("jobs_max", jobs_max, 1, bounds.CLAIM_JOBS_MAX)
        check_number("lease_seconds", lease_seconds, 0.001, bounds.LEASE_SECONDS_MAX)
        check_number("sweep_seconds", sweep_seconds, 0.001, bounds.LEASE_SECONDS_MAX)
        self.name = f"{socket.gethostname()}-{os.getpid()}-{new_id()}" if name is None else name
        check_name("worker", self.name, bounds.WORKER_CHARS_MAX)
        self.lease_seconds, self.sweep_seconds = float(lease_seconds), float(sweep_seconds)
        self.kinds = tuple(sorted(app.jobs))
        self._slots, self._jobs_max = slots, jobs_max
        self._prefetch = Prefetch(slots, jobs_max)
        self._runs = Runs()
        self._ended: deque[tuple[Run, Outcome, bool]] = deque()
        self._tickets: dict[LocalTicket, tuple[Run, LeasedJob]] = {}
        random = Random()
        self._attempts = {kind: Attempts(job, random) for kind, job in app.jobs.items()}
        self._unsaid: list[Settlement] = []  # what the store did not take yet
        self._ready: deque[str] = deque(self.queues)  # queues that may have work
        self._woken = 0  # how often someone said that there may be work
        self._open_key = 0
        self._began = 0.0
        self.record = Record(self.name, listeners)
        self.vitals = Vitals(self.name, self.record, lease_seconds=self.lease_seconds)
        self._stopping = False
        self._at_once = False
        self._until_empty = False
        self._is_sure = False  # that nothing is left to run: it has looked twice
        self._limit: asyncio.Timeout | None = None
        self._executor: Executor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._wake = asyncio.Event()

    # Life

    async def run(self, *, until_empty: bool = False) -> None:
        """Work until told to stop; then release what has not started and finish what has.

        ``until_empty``: stop as well when nothing is left that may be run now.
        """
        self._until_empty = until_empty
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._store = await self.app.lend()
        heartbeat = HeartbeatThread(self._heartbeat_store, self._make_heartbeat)
        in_memory = self.app.url.startswith("sqlite:///:memory:")
        beating = None
        stopped = asyncio.Event()
        if in_memory:  # there is one store, and nobody else to take its jobs
            beating = asyncio.create_task(self._make_heartbeat(self._store).run(stopped))
        else:
            heartbeat.start()
        others = [asyncio.create_task(self._listen()), asyncio.create_task(self.vitals.turn_over())]
        executor = Executor(
            shards=1,
            slots=self._slots,
            queue_size=self._jobs_max,
            max_attempts=1,
        )
        executor.start()
        self._executor = executor
        try:
            await self._work_on()
        finally:
            if self._at_once:
                await self._part()
            else:
                await executor.stop()
            for other in others:
                other.cancel()
            await asyncio.wait(others)
            stopped.set()
            if beating is not None:
                await beating
            elif self._at_once:  # it may be waiting for a store that is away
                threading.Thread(target=heartbeat.stop, daemon=True).start()
            else:
                await asyncio.to_thread(heartbeat.stop)

    def stop(self) -> None:
        """Take nothing more; from any thread, and from a signal handler."""
        self._stopping = True
        self._rouse()

    def stop_now(self) -> None:
        """Take nothing more, wait for nothing, and give back what runs, its attempt uncounted.

        An ``async def`` is cancelled. A ``def`` on a thread cannot be: others run it a second
        later, so end the process when ``run`` has returned, which is a matter of seconds. From any
        thread, and from a signal handler.
        """
        self._at_once = True
        self.stop()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._hurry)

    @property
    def running(self) -> int:
        """How many lanes, or jobs without a key, run at this moment."""
        executor = self._executor
        return 0 if executor is None else self._slots - executor.free_slots

    def _hurry(self) -> None:
        assert self._loop is not None
        if self._limit is not None:
            self._limit.reschedule(self._loop.time() + PART_SECONDS_MAX)

    async def _work_on(self) -> None:
        """Step until all is done; or, told to stop at once, until this step is or a moment over."""
        try:
            async with asyncio.timeout(None) as self._limit:
                while not (self._stopping and (self._at_once or self._is_done())):
                    await self._work()
        except TimeoutError:
            if self._limit is None or not self._limit.expired():
                raise
        finally:
            self._limit = None

    async def _part(self) -> None:
        """Give back all that is in hand, and say so to the store if it answers in a moment."""
        self._release_unstarted()
        held = list(self._tickets.items())
        await cancel_all([ticket for ticket, _ in held])
        noted = {id(outcome.job) for _, outcome, _ in self._ended}
        for ticket, (run, job) in sorted(held, key=lambda one: one[1][1].position):
            has_said = id(job) in noted or (ticket.ended and ticket.error is None)
            if not has_said and not run.is_over:
                self._note(run, given_back(ticket, job))
        self._collect()
        self._unsaid += self._runs.settlements()
        try:
            async with asyncio.timeout(PART_SECONDS_MAX):
                while self._unsaid:
                    await self._settle()
        except (StoreError, TimeoutError) as error:
            self.vitals.troubled("settling", error)

    def _is_done(self) -> bool:
        return not (self._runs.in_hand or self._runs.unsaid or self._ended or self._unsaid)

    async def _work(self) -> None:
        """Make one step, and wait for something to do if it had nothing to do."""
        self._wake.clear()
        try:
            if await self.step():
                self.vitals.answered("settling")
                return
        except StoreError as error:
            self.vitals.troubled("settling", error)
            await asyncio.sleep(TROUBLE_SECONDS)
            return
        if self._until_empty and self._is_done() and not self._ready:
            if self._is_sure:
                self.stop()
            self._is_sure = True
            self._look_again()
            return
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            self._look_again()

    async def step(self) -> bool:
        """Settle what has ended and claim what can be started; say whether anything was done."""
        assert self._executor is not None
        if self._stopping:
            self._release_unstarted()
        self._collect()
        for one in self._runs.lanes_ended():
            if one.queue not in self._ready:
                self._ready.append(one.queue)  # the lane may have more, and nobody would say so
        wanted = 0
        if not self._stopping and self._ready:
            wanted = self._prefetch.wanted(self._runs.in_hand, self._executor.keys_busy)
        if self._runs.unsaid:
            self._unsaid += self._runs.settlements()
        if not wanted and not self._unsaid:
            return False
        claims: list[Claim] = []
        if wanted:
            queue, woken = self._ready[0], self._woken
            self._ready.rotate(-1)
            claims = await self._turn(queue, wanted)
            is_drained = sum(len(claim.jobs) for claim in claims) < wanted
            if is_drained and woken == self._woken:
                self._ready.remove(queue)  # until someone says that there is work again
        else:
            await self._settle()
        if claims:
            await self._begin(claims)
        return True

    # Settling and claiming

    async def _turn(self, queue: str, wanted: int) -> list[Claim]:
        said = self._unsaid
        options: dict[str, Any] = {
            "jobs_max": min(wanted, bounds.CLAIM_JOBS_MAX),
            "worker": self.name,
            "lease_seconds": self.lease_seconds,
            "kinds": self.kinds,
            "suspects_max": 1,
        }
        if not said:
            return await self._store.claim(queue, **options)
        try:
            claims = await self._store.turn(said, queue, **options)
        except LeaseLost as error:
            self._drop(error.tokens)
            self._look_again()  # nothing was claimed, whatever there is
            return []
        self._said(said)
        return claims

    async def _settle(self) -> None:
        said = self._unsaid
        try:
            await self._store.settle(said, worker=self.name)
        except LeaseLost as error:
            self._drop(error.tokens)
        else:
            self._said(said)

    def _said(self, said: Sequence[Settlement]) -> None:
        """The store has taken these, the first of what it was to be told."""
        self._unsaid = self._unsaid[len(said) :]
        self.record.settled(said)
        self._look_later(said)
        for one in said:
            run = self._runs.find(one.lease)
            if run is not None:
                run.tell(len(one.outcomes))

    def _drop(self, tokens: Iterable[int]) -> None:
        """What was done under a lost lease is someone else's to say."""
        gone = set(tokens)
        dropped = [one for one in self._unsaid if one.lease.token in gone]
        self._unsaid = [one for one in self._unsaid if one.lease.token not in gone]
        self.record.lost(sum(len(one.outcomes) for one in dropped))
        self._lose([lease for lease in self._runs.leases() if lease.token in gone])

    # Running

    async def _begin(self, claims: Sequence[Claim]) -> None:
        """Hand what was claimed to the executor: a lane's jobs one by one, others side by side."""
        offers: list[tuple[str, Any]] = []
        owners: list[tuple[Run, LeasedJob]] = []
        for claim in claims:
            run = self._runs.take(claim)
            key = f"lane {claim.lease.lane}" if run.is_keyed else None
            for job in claim.jobs:
                offers.append((key or self._next_open_key(), self._job(run, job)))
                owners.append((run, job))
        self._began = perf_counter()
        self._is_sure = False
        assert self._executor is not None
        tickets = await self._executor.submit_many(offers, timeout=60.0)
        self._tickets.update(zip(tickets, owners, strict=True))

    def _next_open_key(self) -> str:
        """Return a key that no job in hand has: more of them than jobs that may be in hand."""
        self._open_key = (self._open_key + 1) % OPEN_KEYS
        return f"open {self._open_key}"

    def _job(self, run: Run, leased: LeasedJob) -> Any:
        attempts = self._attempts.get(leased.kind)
        if attempts is None:  # of another app, behind a head of ours
            outcome = released(leased)

            async def give_back() -> None:
                self._note(run, outcome)

            return give_back
        way = LeaseWay(self._store, self.name, run, leased, self.lease_seconds)
        if attempts.is_async:

            async def on_loop() -> None:
                if self._may_start(run, leased):
                    self._note(run, await attempts.on_loop(run.lease, leased, way), way.is_settled)

            return on_loop

        def on_thread() -> None:
            if self._may_start(run, leased):
                self._note(run, attempts.on_thread(run.lease, leased, way))

        return on_thread

    def _may_start(self, run: Run, leased: LeasedJob) -> bool:
        if self._stopping and not run.is_over:
            self._note(run, released(leased))
            return False
        run.is_started = True
        return not run.is_over

    def _note(self, run: Run, outcome: Outcome, is_settled: bool = False) -> None:
        """Take in what became of a job; from any thread."""
        if run.is_keyed:
            if type(outcome.verdict) is not Done:
                run.is_over = True
            if not is_settled:
                run.owe()
        self._ended.append((run, outcome, is_settled))
        self._rouse()

    def _collect(self) -> None:
        count = len(self._ended)
        for _ in range(count):
            run, outcome, is_settled = self._ended.popleft()
            self.record.counts.done += is_settled
            self._runs.note(run, outcome, is_settled=is_settled)
        if count:
            self._prefetch.ended(count, perf_counter() - self._began)
            self._began = perf_counter()
            for ticket in [one for one in self._tickets if one.ended]:
                del self._tickets[ticket]

    def _release_unstarted(self) -> None:
        """Give back what still waits for a slot. A lane's jobs behind one that runs wait for it:
        they are given back when it ends.
        """
        for ticket, (run, job) in list(self._tickets.items()):
            if run.is_keyed and run.is_started:
                continue
            if ticket.state is State.WAITING and ticket.cancel():
                del self._tickets[ticket]
                if not run.is_over:
                    self._note(run, released(job))

    # Waking and beating

    async def _listen(self) -> None:
        while True:
            try:
                if await self._store.wait(self.queues, timeout_seconds=WAIT_SECONDS):
                    self._look_again()
                self.vitals.answered("waiting")
            except StoreError as error:
                self.vitals.troubled("waiting", error)
                await asyncio.sleep(TROUBLE_SECONDS)

    def _look_again(self) -> None:
        """There may be work in every queue. Each keeps its turn: what wakes often starves none."""
        self._ready.extend(one for one in self.queues if one not in self._ready)
        self._woken += 1
        self._wake.set()

    def _look_later(self, said: Iterable[Settlement]) -> None:
        """Look again when what is to be retried is due."""
        assert self._loop is not None
        for delay in {
            outcome.verdict.delay_seconds
            for one in said
            for outcome in one.outcomes
            if type(outcome.verdict) is Retry
        }:
            self._loop.call_later(min(delay, POLL_SECONDS) + 0.001, self._look_again)

    def _rouse(self) -> None:
        if threading.get_ident() == self._thread:
            self._wake.set()
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake.set)

    def _heartbeat_store(self) -> Store:
        return connect(self.app.url, clock=self.app.clock)

    def _make_heartbeat(self, store: Store) -> Heartbeat:
        return Heartbeat(
            store, self, lease_seconds=self.lease_seconds, sweep_seconds=self.sweep_seconds
        )

    def leases(self) -> list[Lease]:
        """Return the leases to keep."""
        return self._runs.leases()

    def view(self) -> WorkerView:
        """Return the worker as others see it."""
        return WorkerView(
            id=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=inturn.__version__,
            queues=tuple(self.queues),
            kinds=self.kinds,
            running=self._runs.in_hand,
        )

    def lost(self, leases: Sequence[Lease]) -> None:
        """Hear from the heartbeat's thread that leases are someone else's now."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._lose, leases)

    def _lose(self, leases: Iterable[Lease]) -> None:
        """What has not started under a lost lease must not start."""
        lost = self._runs.lose(leases)
        for run in lost:
            run.end()
        self.record.lost(sum(run.left + len(run.ended) for run in lost))

    def reclaimed(self, found: Reclaimed) -> None:
        """Hear from the heartbeat's thread that a sweep took jobs back: they may be claimed."""
        if found.leases:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._look_again)

    def troubled(self, error: StoreError) -> None:
        """Hear from the heartbeat's thread that the store could not do its work."""
        self.vitals.troubled("beating", error)

    def beaten(self) -> None:
        """Hear from the heartbeat's thread that the store answers."""
        self.vitals.beaten()


def _queues_of(app: App) -> list[str]:
    return sorted({job.options.queue for job in app.jobs.values()} or {"default"})

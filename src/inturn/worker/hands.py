"""The jobs in a worker's hands: on its executor in their order, noted when they end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from time import monotonic, perf_counter
from typing import Any, NamedTuple

from inturn.executor import Executor
from inturn.executor.call import ON_LOOP
from inturn.executor.completions import Completions
from inturn.executor.ticket import LocalTicket, State
from inturn.log import log_after_done
from inturn.model.job import LeasedJob
from inturn.model.lease import Claim
from inturn.policy.settlement import Outcome
from inturn.policy.verdict import Done, Release, Verdict
from inturn.worker.attempt import Attempts
from inturn.worker.loop_end import LoopEnd
from inturn.worker.parting import STILL_RUNS, cancel_all
from inturn.worker.process_pool import ChildPool
from inturn.worker.runs import Run, Runs, released
from inturn.worker.volume import Volume, chars_of
from inturn.worker.way import LeaseWay

OPEN_KEYS = 4096  # more than jobs that may be in hand

SLOW_SECONDS = 1.0
"""A job of a lane that took so long gives back the jobs behind it; one without a key that was
claimed so long ago and has not started is given back. Who is free takes them, by priority."""


_END_SECONDS = 0.1  # for an executor with nothing to run; on a thread something may go on


class Hold:
    """A job in hand. Whoever takes the right to it first may start it, or give it back."""

    __slots__ = (
        "_right", "behind", "is_cancellable", "is_cancelled", "is_collected", "is_doubtful",
        "is_noted", "is_shed", "job", "run", "way",
    )  # fmt: skip

    def __init__(self, run: Run, job: LeasedJob) -> None:
        self.run, self.job = run, job
        self.way: LeaseWay | None = None  # of one that was started
        self.behind: LeasedJob | None = None  # the next one in a lane, under the same lease
        self.is_cancellable = False
        self.is_cancelled = False  # by the worker; else a handler has cancelled itself
        self.is_noted = False  # whether it is said what became of it
        self.is_collected = False  # whether that was taken in
        self.is_doubtful = False  # its lease went with its transaction, or was lost before that
        self.is_shed = False  # it was given back because too much was to be told
        self._right = [None]

    @property
    def is_taken(self) -> bool:
        """Whether someone has the right to it."""
        return not self._right

    def take(self) -> bool:
        """Take the right to it; say whether it was still there. From any thread."""
        try:
            self._right.pop()
        except IndexError:
            return False
        return True


class Ended(NamedTuple):
    """What has ended: so many jobs; the runs of those that have settled themselves; how many wanted
    to, and turned out to be lost; how many were run; and the characters there are to say of them.
    """

    jobs: int
    settled: list[Run]
    lost: int
    ran: int
    chars: int


class Loss(NamedTuple):
    """What went with lost leases: so many jobs; of those that ran, some could not be cancelled."""

    jobs: int
    cancelled: int
    going_on: int


class Hands:
    """Hands what was claimed to the executor, and takes in what became of it.

    ``make_way``: makes the way from a job back to the store. ``rouse``: called, from any thread,
    when a job has ended.
    """

    def __init__(
        self,
        attempts: Mapping[str, Attempts],
        children: Mapping[str, ChildPool],
        *,
        make_way: Callable[[Run, LeasedJob], LeaseWay],
        rouse: Callable[[], None],
    ) -> None:
        self._attempts, self._children = attempts, children
        self._make_way, self._rouse = make_way, rouse
        self.executor: Executor | None = None  # given when the worker begins
        self.runs = Runs()
        self.volume = Volume()
        self.loop_end = LoopEnd()
        self.is_stopping = False
        self.has_shed = False  # jobs were given back because too much was to be told
        self._ended: deque[tuple[Hold, Outcome, bool, int]] = deque()
        self._tickets: dict[LocalTicket, Hold] = {}
        self._completions = Completions()
        self._open_key = 0
        self._last_begun: LocalTicket | None = None  # that got a slot on the loop at once

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in hand, and nothing runs whose lease was lost."""
        return not (self.runs.in_hand or self._ended or self.keys_busy)

    @property
    def keys_busy(self) -> int:
        """How many lanes, or jobs without a key, run or wait for a slot."""
        return 0 if self.executor is None else self.executor.keys_busy

    @property
    def running(self) -> int:
        """How many lanes, or jobs without a key, run at this moment."""
        executor = self.executor
        return 0 if executor is None else executor.settings.slots - executor.free_slots

    @property
    def has_more(self) -> bool:
        """Whether a job has ended that was not taken in."""
        return bool(self._ended)

    def when_started(self, then: Callable[[], None]) -> None:
        """Call something as soon as all of what was begun last that has a slot has started."""
        loop = asyncio.get_running_loop()

        def look() -> None:
            if self._last_begun is not None and _is_to_start(self._last_begun):
                loop.call_soon(look)  # what keeps the loop busy lets it turn now and then
            else:
                then()

        loop.call_soon(look)

    async def begin(self, claims: Sequence[Claim], *, kept_until: float = inf) -> list[Run]:
        """Start on what was claimed: a lane's jobs one by one, others side by side.

        ``kept_until``: when the leases run out, by ``lease_now``, unless they are prolonged.
        """
        offers: list[tuple[str, Any]] = []
        holds: list[Hold] = []
        runs = []
        now = monotonic()
        for claim in claims:
            run = self.runs.take(claim, now, kept_until)
            runs.append(run)
            key = f"lane {claim.lease.lane}" if run.is_keyed else None
            before: Hold | None = None
            for job in claim.jobs:
                hold = Hold(run, job)
                if before is not None:
                    before.behind = job
                before = hold if run.is_keyed else None
                offers.append((key or self._next_open_key(), self._job(hold)))
                holds.append(hold)
        assert self.executor is not None
        tickets = await self.executor.submit_many(
            offers, timeout=60.0, completions=self._completions
        )
        self._tickets.update(zip(tickets, holds, strict=True))
        self._last_begun = next(filter(_is_to_start, reversed(tickets)), None)
        return runs

    def collect(self) -> Ended:
        """Take in what has ended."""
        count, lost, ran, chars = len(self._ended), 0, 0, 0
        settled: list[Run] = []
        for _ in range(count):
            hold, outcome, is_settled, size = self._ended.popleft()
            hold.is_collected = True
            self.has_shed = self.has_shed or hold.is_shed
            chars += size
            ran += type(outcome.verdict) is not Release
            if is_settled:
                settled.append(hold.run)
            elif hold.is_doubtful:
                lost += 1
            self.runs.note(hold.run, outcome, is_settled=is_settled)
        for ticket in self._completions.take_now():
            self._tickets.pop(ticket, None)
        self.volume.add(-chars)  # what is to be told counts it from now on
        return Ended(count, settled, lost, ran, chars)

    def give_back(self, *, claimed_before: float) -> int:
        """Give back what still waits for a slot and was claimed before a time; return how many.

        A lane's jobs behind one that runs wait for it: they are given back when it ends.
        """
        count = 0
        for ticket, hold in list(self._tickets.items()):
            run = hold.run
            if run.claimed_at > claimed_before or (run.is_keyed and run.is_started):
                continue
            if not hold.take():
                continue
            del self._tickets[ticket]
            ticket.cancel()
            if not run.is_over:
                count += 1
                self._note(hold, released(hold.job))
        return count

    def lose(self, runs: Iterable[Run]) -> Loss:
        """Let go of jobs that are someone else's now: what can be cancelled is."""
        lost = set(runs)
        jobs = sum(run.left + len(run.ended) for run in lost)
        cancelled = going_on = 0
        for ticket, hold in list(self._tickets.items()):
            if hold.run not in lost or hold.is_collected:
                continue
            if hold.way is not None and hold.way.is_settling:
                jobs -= 1  # it is known when it ends
                hold.is_doubtful = True
            elif hold.way is not None and hold.way.is_settled:
                jobs -= 1  # its lease went with its transaction
            elif hold.is_noted:
                pass
            elif hold.take():
                del self._tickets[ticket]
                ticket.cancel()
            elif hold.is_cancellable:
                hold.is_cancelled = True
                cancelled += ticket.cancel()
            else:
                going_on += 1
        return Loss(jobs, cancelled, going_on)

    async def finish(self) -> None:
        """Wait until what runs has ended."""
        if self.executor is not None:
            await self.executor.stop()

    async def end(self) -> None:
        """Let the executor end, now or with the threads that still run."""
        if self.executor is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await self.executor.stop()

    def cancel(self) -> None:
        """Cancel what runs and can be cancelled: it is given back when it has ended."""
        for ticket, hold in list(self._tickets.items()):
            if hold.is_taken and hold.is_cancellable and not hold.is_noted:
                hold.is_cancelled = True
                ticket.cancel()

    async def part(self) -> None:
        """Give back all that is in hand, at once: what can be cancelled is, the rest goes on."""
        self.give_back(claimed_before=monotonic())
        held = sorted(self._tickets.items(), key=lambda one: one[1].job.position)
        for _, hold in held:
            hold.is_cancelled = True
        await cancel_all([ticket for ticket, _ in held])
        for _, hold in held:
            if not (hold.is_noted or hold.run.is_over):
                verdict = Release() if hold.take() else STILL_RUNS
                self._note(hold, Outcome(hold.job, verdict))

    def _next_open_key(self) -> str:
        """Return a key that no job in hand has."""
        self._open_key = (self._open_key + 1) % OPEN_KEYS
        return f"open {self._open_key}"

    def _job(self, hold: Hold) -> Any:
        leased, token = hold.job, hold.run.lease.token
        attempts, children = self._attempts.get(leased.kind), self._children.get(leased.kind)
        if attempts is None:  # of another app, behind a head of ours

            async def give_back() -> None:
                if hold.take() and not hold.run.is_over:
                    self._note(hold, released(leased))

            return give_back
        leased = attempts.timed(leased)
        if attempts.is_plain and children is None:  # it needs no way back: most jobs do not
            hold.is_cancellable = True

            async def plainly() -> None:
                if self._may_start(hold):
                    try:
                        outcome = await attempts.plainly(leased)
                    except asyncio.CancelledError as error:
                        if self._is_called_off(hold):
                            self._note(hold, released(leased))
                            raise
                        outcome = Outcome(leased, attempts.failed(leased, error))
                    self._note(hold, outcome, is_here=True)

            return plainly
        if attempts.is_on_loop or children is not None:
            hold.is_cancellable = attempts.is_cancellable or children is not None

            async def on_loop() -> None:
                if self._may_start(hold):
                    way = hold.way = self._make_way(hold.run, leased)
                    try:
                        if children is None:
                            outcome = await attempts.on_loop(token, leased, way)
                        else:
                            outcome = await self._in_child(hold.run, children, leased, way)
                    except asyncio.CancelledError as error:
                        if self._is_called_off(hold):
                            verdict = Release() if hold.is_cancellable else STILL_RUNS
                            self._note(hold, Outcome(leased, verdict), way.is_settled)
                            raise
                        outcome = Outcome(leased, attempts.failed(leased, error))
                    finally:
                        way.end()
                    self._note(hold, outcome, way.is_settled)

            return on_loop

        def on_thread() -> None:
            if self._may_start(hold):
                way = hold.way = self._make_way(hold.run, leased)
                self._note(hold, attempts.on_thread(token, leased, way), way.is_settled)
                way.end()

        return on_thread

    async def _in_child(
        self, run: Run, children: ChildPool, leased: LeasedJob, way: LeaseWay
    ) -> Outcome:
        """Make an attempt in a child process."""
        began = perf_counter()
        verdict: Verdict
        try:
            child = await children.take()
            if self.is_stopping or not run.is_ours:  # by now: to start a child may take long
                children.keep(child)
                return released(leased)
            verdict = await children.attempt(child, run.lease.token, leased, way)
        except Exception as error:
            verdict = self._attempts[leased.kind].failed(leased, error)
        return Outcome(leased, verdict, perf_counter() - began)

    def _may_start(self, hold: Hold) -> bool:
        """Take the right to start a job, unless it is to be given back, or is no longer ours.

        Under a lease that has run out nothing starts: after a process stood still, or could not
        reach the store, somebody else may be at it. Nor does it while too much is to be told.
        """
        run = hold.run
        if not hold.take() or run.is_over:
            return False
        hold.is_shed = self.volume.is_full
        if self.is_stopping or run.is_slow or hold.is_shed or not run.is_ours:
            self._note(hold, released(hold.job))
            return False
        run.is_started = True
        return True

    def _is_called_off(self, hold: Hold) -> bool:
        """Whether a job is to end: the worker stops at once, lost the lease, or its loop ends.

        Else its handler has cancelled itself, or one has cancelled all there is on the loop.
        """
        loop_end = self.loop_end
        return (hold.is_cancelled or loop_end.has_come) and not loop_end.is_of_a_job

    def _note(
        self, hold: Hold, outcome: Outcome, is_settled: bool = False, *, is_here: bool = False
    ) -> None:
        """Take in what became of a job; from any thread, or ``is_here``, from the worker's loop.

        There, what has ended is collected whole and at once, so the first that ends is to rouse.
        """
        run = hold.run
        hold.is_noted = True
        if is_settled and type(outcome.verdict) is not Done:
            log_after_done(outcome.job.kind, outcome.job.id, outcome.verdict)
            # It is done all the same, and those behind it in its lane have their turn.
            outcome = Outcome(outcome.job, Done(), outcome.seconds)
        if run.is_keyed:
            if type(outcome.verdict) is not Done:
                run.is_over, run.behind = True, hold.behind
            elif outcome.seconds >= SLOW_SECONDS:
                run.is_slow = True
            if not is_settled:
                run.owe()
        rouses = not (is_here and self._ended)
        if chars := chars_of(outcome):
            self.volume.add(chars)
        self._ended.append((hold, outcome, is_settled, chars))
        if rouses:
            self._rouse()


def _is_to_start(ticket: LocalTicket) -> bool:
    return ticket.state is State.RUNNING and ticket.place == ON_LOOP and not ticket.attempts

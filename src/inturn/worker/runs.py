"""Leases: their jobs that have not started, those that run, and outcomes that are not settled."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from contextvars import Context
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from inturn.executor.slots import ON_LOOP, ON_THREAD, Slots
from inturn.log import log_after_done
from inturn.model.job import LeasedJob
from inturn.model.lease import Claim, Lease
from inturn.policy.settlement import PLAINLY_DONE, Outcome, Settlement
from inturn.policy.verdict import Done, Release, Verdict
from inturn.store.store import Store
from inturn.worker.ends import Ends
from inturn.worker.heartbeat import lease_now
from inturn.worker.queues import QueuesReady
from inturn.worker.settle_buffer import Volume, chars_of
from inturn.worker.stop import Stop

if TYPE_CHECKING:
    from inturn.worker.attempt import Attempts

SLOW_SECONDS = 1.0
"""A job of a lane that took so long gives back the jobs behind it; one without a key that was
claimed so long ago and has not started is given back. Who is free takes them, by priority."""

RELEASE = Release()
CANCELLED = Release()  # its handler was cancelled; whether it is released the next step decides


class Run:
    """One lease. It is the lane that slots run: a keyed one is run job after job, the jobs of an
    open one side by side.

    A job is in one place: in ``_jobs``, in ``started``, in ``outcomes``, or settled. Whoever takes
    it out of ``started`` says what became of it, and nobody else does.
    """

    __slots__ = (
        "_all_settled", "_jobs", "claimed_at", "has_begun", "is_fresh", "is_keyed", "is_lost",
        "kept_until", "lease", "left", "outcomes", "owed", "runs", "settled_elsewhere", "started",
    )  # fmt: skip
    keeps_slot: ClassVar[bool] = True  # what was claimed can all start soon

    def __init__(self, runs: Runs, claim: Claim, claimed_at: float, kept_until: float) -> None:
        self.runs = runs
        self.lease: Lease = claim.lease
        self.is_keyed = claim.lease.is_keyed
        self.claimed_at = claimed_at
        self.kept_until = kept_until  # by ``lease_now``; later somebody else may have its jobs
        backwards = list(reversed(claim.jobs))
        self._jobs: tuple[list[LeasedJob], list[LeasedJob]]
        if self.is_keyed:
            self._jobs = backwards, backwards
        else:
            self._jobs = [], []
            for job in backwards:
                self._jobs[runs.attempts[job.kind].place].append(job)
        self.started: dict[int, LeasedJob] = {}  # by position
        self.settled_elsewhere: dict[int, Verdict] = {}  # by position: what a job's own transaction
        # tells the store, from shortly before its commit
        self.outcomes: list[Outcome] = []  # that no step has seen
        self.left = len(backwards)  # jobs without an outcome that a step has seen
        self.owed = 0  # outcomes that a step has seen and the store has not taken
        self.is_fresh = False  # whether the next step knows that there are outcomes
        self.is_lost = False  # it is someone else's now
        self.has_begun = False
        self._all_settled: asyncio.Event | None = None  # made by who waits for it

    @property
    def is_ours(self) -> bool:
        """Whether nobody else can have its jobs yet."""
        return not self.is_lost and lease_now() <= self.kept_until

    # What slots ask

    def next(self, place: int) -> LeasedJob | None:
        """Take the next job that may start. If none may, for somebody else may be at it by now or
        the worker stops, all that has not started is given back.
        """
        jobs = self._jobs[place]
        if not jobs:
            return None
        if not self.runs.may_start(self):
            self._release()
            return None
        job = jobs.pop()
        self.started[job.position] = job
        self.has_begun = True
        return job

    def context(self, job: LeasedJob) -> Context:
        """Return a context with what start hooks have set; what a job adds no other sees."""
        return self.runs.context.copy()

    def begin(self, job: LeasedJob) -> Any:
        """Make an attempt, or return the coroutine that does."""
        return self.runs.attempts[job.kind].begin(self, job)

    def ended(
        self, job: LeasedJob, outcome: Outcome | None, error: BaseException | None
    ) -> int | None:
        """Take in what became of a job. From any thread."""
        if (settled := self.settled_elsewhere.get(job.position)) is not None:
            outcome = _settled_elsewhere(job, settled, outcome)
        elif outcome is None:  # an attempt raises nothing else
            outcome = Outcome(job, CANCELLED)
        place = None
        if self.is_keyed:
            with self.runs.slots.lock:  # what is behind it is released after it
                is_noted = self._note(job, outcome)
                place = self._place_of_next(outcome) if is_noted else None
        else:
            is_noted = self._note(job, outcome)
        if is_noted:
            self.runs.note(self)  # without the lock: to rouse a loop lets other threads run
        return place

    def _note(self, job: LeasedJob, outcome: Outcome) -> bool:
        """Note an outcome; False if nobody asks for it, for the job was lost, or given up."""
        if self.started.pop(job.position, None) is None:
            return False
        if outcome.verdict is not PLAINLY_DONE and job.position not in self.settled_elsewhere:
            self.runs.volume.add(chars_of(outcome))
        self.outcomes.append(outcome)
        return True

    def _place_of_next(self, outcome: Outcome) -> int | None:
        """Return where a lane goes on. It does not after what is not done, or what took long."""
        jobs, attempts = self._jobs[0], self.runs.attempts
        if type(outcome.verdict) is not Done:
            jobs.clear()  # the store gives them back
        if not jobs:
            return None
        if jobs[-1].kind not in attempts or outcome.seconds >= SLOW_SECONDS:  # another app's
            self._release()
            return None
        return attempts[jobs[-1].kind].place

    def _release(self) -> int:
        """Give back what has not started; return how many jobs. With ``Slots.lock`` held.

        Nothing behind a job of a lane that runs: the end of that decides.
        """
        if self.is_keyed and self.started:
            return 0
        # In a lane, to release the head gives back the rest.
        jobs = self._jobs[0][-1:] if self.is_keyed else [*self._jobs[0], *self._jobs[1]]
        count = len(self._jobs[0]) if self.is_keyed else len(jobs)
        for one in self._jobs:
            one.clear()
        if jobs:
            self.outcomes += [Outcome(job, RELEASE) for job in jobs]
            self.runs.note(self)
        return count

    # What a step and an attempt do

    def start(self) -> None:
        """Let slots run it."""
        slots = self.runs.slots
        if self.is_keyed:
            slots.add(self, self.runs.attempts[self._jobs[0][-1].kind].place)
            return
        for place in (ON_LOOP, ON_THREAD):
            if self._jobs[place]:
                slots.add(self, place, len(self._jobs[place]))

    def give_back(self) -> int:
        """Give back what has not started; return how many jobs."""
        with self.runs.slots.lock:
            return self._release()

    def give_up(self, verdict: Verdict) -> None:
        """Say what becomes of jobs that still run, without waiting for their ends."""
        for position in list(self.started):
            if position in self.settled_elsewhere:
                continue
            job = self.started.pop(position, None)
            if job is not None:
                self.outcomes.append(Outcome(job, verdict))
                self.runs.note(self)

    def taken(self) -> list[Outcome]:
        """Take the outcomes that no step has seen. Ends go on meanwhile, on threads."""
        self.is_fresh = False  # first: who ends from here on is noted once more
        count = len(self.outcomes)
        outcomes = self.outcomes[:count]
        del self.outcomes[:count]
        return outcomes

    def lose(self) -> tuple[int, list[LeasedJob]]:
        """Let nothing more of it start, and ask for no ends. Return how many jobs are lost, and
        which of them run. Of what has ended, or is settled elsewhere, the store decides.
        """
        with self.runs.slots.lock:
            lost = sum(map(len, self._jobs[: 1 if self.is_keyed else 2]))
            for jobs in self._jobs:
                jobs.clear()
        self.is_lost = True
        running = [
            job
            for position, job in list(self.started.items())
            if position not in self.settled_elsewhere
            and self.started.pop(position, None) is not None
        ]
        lost += len(running)
        self.left -= lost
        self._tell_settled()
        return lost, running

    def to_tell(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Return the outcomes that no transaction of a job has told the store."""
        if not self.settled_elsewhere:
            return outcomes
        return [one for one in outcomes if one.job.position not in self.settled_elsewhere]

    def settled(self, outcomes: int) -> None:
        """Note that the store has taken outcomes, or will not have them."""
        self.owed -= outcomes
        self._tell_settled()

    async def all_settled(self) -> None:
        """Wait until the store knows of every job of a lane that has ended."""
        while self.is_keyed and not self.is_lost:
            if not (self.owed or self.to_tell(self.outcomes)):
                return
            self._all_settled = asyncio.Event()
            await self._all_settled.wait()

    def keep(self, asked_at: float, until: float) -> None:
        """Note that the store called the lease held, when asked at a time. From any thread.

        One that had run out by then proves nothing: somebody may be taking it back.
        """
        if asked_at <= self.kept_until:
            self.kept_until = until

    def _tell_settled(self) -> None:
        if self._all_settled is not None:
            self._all_settled.set()


class Runs:
    """All leases of a worker, and what has ended under them."""

    def __init__(
        self,
        worker: str,
        attempts: dict[str, Attempts],
        queues: QueuesReady,
        *,
        lease_seconds: float,
    ) -> None:
        self.worker, self.attempts, self.queues = worker, attempts, queues
        self.lease_seconds = lease_seconds
        self.store: Store  # known when the worker begins, as the slots are
        self.slots: Slots
        self.context: Context  # in which the worker works
        self.volume = Volume()
        self.ends = Ends(self)
        self.stop = Stop.RUN
        self.in_hand = 0  # jobs that have not ended, as far as a step has seen
        self._all: set[Run] = set()
        self._fresh: deque[Run] = deque()  # with outcomes that no step has seen
        self._is_roused = False  # the next step, to look at those

    def __bool__(self) -> bool:
        """Whether there is any lease."""
        return bool(self._all)

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._all))

    def take(self, claim: Claim, claimed_at: float = 0.0, kept_until: float = inf) -> Run:
        """Note a lease."""
        run = Run(self, claim, claimed_at, kept_until)
        self._all.add(run)
        self.in_hand += run.left
        return run

    def may_start(self, run: Run) -> bool:
        """Whether a job of a lease may start now."""
        return (
            self.stop < Stop.FINISH
            and self.volume.chars < self.volume.chars_max
            and not run.is_lost
            and lease_now() <= run.kept_until
        )

    def note(self, run: Run) -> None:
        """Have the next step look at what has ended. From any thread."""
        if not run.is_fresh:
            run.is_fresh = True
            self._fresh.append(run)
            if not self._is_roused:  # of two threads that come at once, both may be first
                self._is_roused = True
                self.queues.rouse()

    def collect(self) -> list[tuple[Run, list[Outcome]]]:
        """Take in what has ended since the last step."""
        self._is_roused = False  # first: whoever ends from here on rouses once more
        found = []
        for _ in range(len(self._fresh)):
            run = self._fresh.popleft()
            outcomes = run.taken()
            if not outcomes:
                continue
            left = run.left - len(outcomes)
            if run.is_keyed and type(outcomes[-1].verdict) is not Done:
                left = 0  # the store gives back those behind it
            self.in_hand -= run.left - left
            run.left = left
            found.append((run, outcomes))
        return found

    def settlement(self, run: Run, outcomes: list[Outcome]) -> Settlement | None:
        """Return what the store is to be told; None if it knows it all."""
        told = run.to_tell(outcomes)
        if not told:
            return None
        if not run.is_keyed:
            told = sorted(told, key=attrgetter("job.position"))
        run.owed += len(told)
        return Settlement(run.lease, told)

    def forget_ended(self, run: Run) -> bool:
        """Forget a lease of which all is settled; say whether that is so."""
        if run.left or run.owed:
            return False
        self._all.discard(run)
        return True

    def lose(self, leases: Iterable[Lease]) -> list[tuple[Run, int, list[LeasedJob]]]:
        """Forget leases that are someone else's now; return how many jobs each has lost, and which
        of those run.
        """
        lost = set(map(_name, leases))
        found = []
        for run in self:
            if _name(run.lease) in lost and not run.is_lost:
                before = run.left
                jobs, running = run.lose()
                self.in_hand -= before - run.left
                self.forget_ended(run)
                found.append((run, jobs, running))
        return found

    def leases(self) -> list[Lease]:
        """Return the leases that are to be kept: until the store has taken what became of the jobs.

        From any thread: a list of a set is made at once, whatever changes meanwhile.
        """
        return [run.lease for run in list(self._all) if not run.is_lost]

    def keep(self, leases: Iterable[Lease], asked_at: float, until: float) -> None:
        """Note that the store called leases held, when asked at a time. From any thread."""
        kept = set(map(_name, leases))
        for run in list(self._all):
            if _name(run.lease) in kept:
                run.keep(asked_at, until)


def _settled_elsewhere(job: LeasedJob, verdict: Verdict, ended: Outcome | None) -> Outcome:
    """Return the outcome of a job whose own transaction has settled it, whatever came after."""
    if ended is None:  # it was cancelled
        return Outcome(job, verdict)
    if type(ended.verdict) is not Done:
        log_after_done(job.kind, job.id, ended.verdict)
    return Outcome(job, verdict, ended.seconds)


def _name(lease: Lease) -> tuple[int, int | None]:
    return lease.token, lease.lane

"""The ledger of a private store: what was submitted, how each attempt ended, whether all is still.

It is told by the store, so it says what happened there, whoever asked for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from inturn.model.clock import Clock
from inturn.model.errors import AttemptFailed, BadInput
from inturn.model.job import LeasedJob, NewJob, Ticket
from inturn.model.lease import Claim, Lease
from inturn.policy.settlement import Outcome, Settlement, gives_back_rest
from inturn.policy.verdict import Bury, Done, Release, Retry
from inturn.queue.job import Job
from inturn.testing.drained import Drained, End, Ran
from inturn.testing.submission import Submission, submission

State = tuple[int, datetime]


class Ledger:
    """What a private store and the worker on it have told: ``PrivateStore`` and ``Observer``."""

    def __init__(self, clock: Clock, declared: Callable[[str], Job[Any, Any] | None]) -> None:
        self.submissions: dict[UUID, Submission] = {}
        self.drained = Drained()  # since the last drain began
        self.in_hand = Hand()
        self._clock, self._declared = clock, declared
        self._drain = threading.Lock()  # held while there is a drain, from whatever thread
        self._begun: set[UUID] = set()
        self._errors: dict[UUID, Exception] = {}
        self._put_off: set[UUID] = set()
        self._changes = 0
        self._told = 0  # how many changes workers were woken for
        self._looked: dict[str, State] = {}  # how things were when a claim found nothing
        self._looking: dict[str, State] = {}
        self._waiting: set[asyncio.Event] = set()

    # What the store and the worker tell

    def accepted(self, jobs: Sequence[NewJob], tickets: Sequence[Ticket]) -> None:
        """Note what is new; a duplicate is a job that was noted before."""
        for new, ticket in zip(jobs, tickets, strict=True):
            if not ticket.duplicate and new.id not in self.submissions:
                found = submission(new, self._declared(new.kind), self._clock.now())
                self.submissions[new.id] = found
                if new.delay_seconds:
                    self._put_off.add(new.id)
        self.stir()

    def claiming(self, queue: str) -> None:
        """Remember how things are as a claim begins."""
        self._looking[queue] = self._state

    def claimed(self, queue: str, claims: Sequence[Claim]) -> None:
        """Note what a worker has in hand."""
        self.in_hand.take(claims)
        if not claims:
            self._looked[queue] = self._looking[queue]
        self._wake()

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """Note how attempts ended."""
        for settlement in settlements:
            self.in_hand.settle(settlement)
            for outcome in settlement.outcomes:
                self._begun.discard(outcome.job.id)
                self._note(outcome, self._errors.pop(outcome.job.id, None))
        self.stir()

    def began(self, job: LeasedJob) -> None:
        """Note that a handler runs, until its job is settled."""
        self._begun.add(job.id)

    def failed(self, job: LeasedJob, error: Exception) -> None:
        """Keep what a handler raised until its job is settled."""
        self._errors[job.id] = error

    def _note(self, outcome: Outcome, error: Exception | None) -> None:
        end = _end(outcome)
        if end is None:
            return
        job, verdict = outcome.job, outcome.verdict
        if end == "retried":
            self._put_off.add(job.id)
        if error is None and isinstance(verdict, Retry | Bury):
            error = AttemptFailed(job.kind, job.id, job.attempt, verdict.error)
        ran = Ran(
            id=job.id,
            kind=job.kind,
            key=job.key,
            attempt=job.attempt,
            attempts_max=job.attempts_max,
            end=end,
            error=None if end == "done" else error,
        )
        self.drained.ran.append(ran)

    @contextmanager
    def draining(self) -> Iterator[Drained]:
        """Note what a drain does while it lasts; refuse a second one meanwhile.

        Two would take each other's jobs, and one would hide what the other's handlers raised.
        """
        if not self._drain.acquire(blocking=False):
            raise BadInput(
                "this sandbox is being drained, and there is one drain at a time. It runs what its "
                "handlers submit as well, so that a handler need not drain; a test waits for the "
                "end of one drain before the next."
            )
        try:
            self.drained = Drained()
            yield self.drained
        finally:
            self._drain.release()

    # Whether there is anything left to do

    def stir(self) -> None:
        """Let every worker look again: there may be work."""
        self._changes += 1
        self._wake()

    def is_still(self, queues: Collection[str]) -> bool:
        """Whether nothing runs, and every queue was found empty since anything changed."""
        return not self.in_hand and all(self._looked.get(one) == self._state for one in queues)

    async def still(self, queues: Collection[str]) -> None:
        """Wait until a worker that looks now has left all still, and found it so twice."""
        for _ in range(2):  # the first claim may have passed over a lane that was just locked
            self.stir()
            while not self.is_still(queues):
                await self._next()

    async def wait(self, queues: Collection[str], seconds: float) -> bool:
        """Wait, as a worker does, until there may be work."""
        try:
            async with asyncio.timeout(seconds):
                while self._told == self._changes:
                    await self._next()
        except TimeoutError:
            return not self.is_still(queues)  # such as when a handler moved the clock
        self._told = self._changes
        return True

    def put_off_since(self) -> set[UUID]:
        """Return the jobs that were put off since this was last asked: delayed, or retried."""
        put_off, self._put_off = self._put_off, set()
        return put_off

    def unfinished(self) -> tuple[list[LeasedJob], list[LeasedJob]]:
        """Return the jobs whose handlers run, and those that are claimed, handler not begun."""
        jobs = self.in_hand.jobs
        begun = [one for one in jobs if one.id in self._begun]
        return begun, [one for one in jobs if one not in begun]

    def ran_most(self) -> tuple[str, int] | None:
        """Return the kind that ran most, and how often."""
        ran = Counter(one.kind for one in self.drained.ran)
        return next(iter(ran.most_common(1)), None)

    @property
    def _state(self) -> State:
        return self._changes, self._clock.now()

    async def _next(self) -> None:
        woken = asyncio.Event()
        self._waiting.add(woken)
        try:
            await woken.wait()
        finally:
            self._waiting.discard(woken)

    def _wake(self) -> None:
        for woken in self._waiting:
            woken.set()


def _end(outcome: Outcome) -> End | None:
    if isinstance(outcome.verdict, Release):
        return None  # it was not started
    if isinstance(outcome.verdict, Done):
        return "done"
    return "dead" if is_buried(outcome) else "retried"


class Hand:
    """The jobs that a worker has claimed and not settled, as a watcher hears of them."""

    def __init__(self) -> None:
        self._held: dict[UUID, tuple[Lease, LeasedJob]] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def jobs(self) -> list[LeasedJob]:
        """What it holds."""
        return [job for _, job in self._held.values()]

    def take(self, claims: Iterable[Claim]) -> None:
        """Hold what was claimed."""
        for claim in claims:
            self._held.update((job.id, (claim.lease, job)) for job in claim.jobs)

    def settle(self, settlement: Settlement) -> None:
        """Let go of what was settled; in a keyed lane, also of what that gives back."""
        for outcome in settlement.outcomes:
            self._held.pop(outcome.job.id, None)
        lease = settlement.lease
        if any(gives_back_rest(lease, outcome) for outcome in settlement.outcomes):
            for id, (held, _) in list(self._held.items()):
                if (held.token, held.lane) == (lease.token, lease.lane):
                    del self._held[id]

    def clear(self) -> None:
        """Let go of everything."""
        self._held.clear()


def is_buried(outcome: Outcome) -> bool:
    """Whether a verdict makes a dead letter: a retry does too, when the attempts are spent."""
    verdict, job = outcome.verdict, outcome.job
    if isinstance(verdict, Retry):
        return verdict.counted and job.attempt >= job.attempts_max
    return isinstance(verdict, Bury)

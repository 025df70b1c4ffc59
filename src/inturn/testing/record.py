"""What happens on a sandbox's store: what was submitted, and how each attempt ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import msgspec

from inturn.model.errors import AttemptFailed
from inturn.model.job import LeasedJob, NewJob, Ticket
from inturn.model.lease import Claim
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Retry
from inturn.store.change import Change
from inturn.store.store import Store
from inturn.store.transaction import Transaction
from inturn.testing.delegate import StoreDelegate

if TYPE_CHECKING:
    _Verbs = Transaction
else:
    _Verbs = object

End = Literal["done", "retried", "dead"]


@dataclass(frozen=True, slots=True)
class Submission:
    """A job that was submitted. ``arguments`` are as in its payload: JSON, by name."""

    new: NewJob

    @property
    def id(self) -> UUID:
        """The job's id."""
        return self.new.id

    @property
    def kind(self) -> str:
        """The job's name."""
        return self.new.kind

    @property
    def key(self) -> str | None:
        """Its key."""
        return self.new.key

    @property
    def arguments(self) -> dict[str, Any]:
        """What its handler is called with."""
        found: dict[str, Any] = msgspec.json.decode(self.new.payload) or {}
        return found

    def __str__(self) -> str:
        using = f" key={self.key!r}" if self.key is not None else ""
        return f"{self.kind}({', '.join(f'{k}={v!r}' for k, v in self.arguments.items())}){using}"


@dataclass(frozen=True, slots=True)
class Ran:
    """One attempt at a job. ``error`` is what it failed with; None if the job is done."""

    job: LeasedJob
    end: End
    error: Exception | None = None

    @property
    def id(self) -> UUID:
        """The job's id."""
        return self.job.id

    @property
    def kind(self) -> str:
        """The job's name."""
        return self.job.kind

    @property
    def key(self) -> str | None:
        """Its key."""
        return self.job.key

    @property
    def attempt(self) -> int:
        """Which attempt this was, from 1."""
        return self.job.attempt

    def __str__(self) -> str:
        return f"job {self.kind!r} {self.id}, attempt {self.attempt} of {self.job.attempts_max}"


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain ran: each attempt, in the order in which they ended."""

    ran: list[Ran] = field(default_factory=list)

    @property
    def done(self) -> list[Ran]:
        """Those whose jobs are done."""
        return [one for one in self.ran if one.end == "done"]

    @property
    def retried(self) -> list[Ran]:
        """Those that failed and will be tried again."""
        return [one for one in self.ran if one.end == "retried"]

    @property
    def dead(self) -> list[Ran]:
        """Those that failed for good."""
        return [one for one in self.ran if one.end == "dead"]

    def __str__(self) -> str:
        return f"{len(self.done)} done, {len(self.retried)} retried, {len(self.dead)} dead"


class Record:
    """What was submitted and what ran. Told by ``RecordedStore``, and by workers of a drain."""

    def __init__(self) -> None:
        self.submissions: dict[UUID, NewJob] = {}
        self.drained = Drained()
        self.running: dict[UUID, LeasedJob] = {}
        self._errors: dict[UUID, Exception] = {}

    def began(self, job: LeasedJob) -> None:
        """Note that a handler is called."""
        self.running[job.id] = job

    def failed(self, job: LeasedJob, error: Exception) -> None:
        """Note what a handler raised, until its job is settled."""
        self._errors[job.id] = error

    def accepted(self, jobs: Sequence[NewJob], tickets: Sequence[Ticket]) -> None:
        """Note what was submitted, without what a dedupe key made one with an earlier job."""
        for new, ticket in zip(jobs, tickets, strict=True):
            if not ticket.duplicate:
                self.submissions.setdefault(new.id, new)

    def settled(self, settlements: Iterable[Settlement]) -> None:
        """Note how attempts ended."""
        for settlement in settlements:
            for outcome in settlement.outcomes:
                self.running.pop(outcome.job.id, None)
                self._note(outcome, self._errors.pop(outcome.job.id, None))

    def _note(self, outcome: Outcome, error: Exception | None) -> None:
        job, verdict = outcome.job, outcome.verdict
        if isinstance(verdict, Done):
            self.drained.ran.append(Ran(job, "done"))
        elif isinstance(verdict, Retry | Bury):
            error = error or AttemptFailed(job.kind, job.id, job.attempt, verdict.error)
            is_dead = isinstance(verdict, Bury) or job.attempt >= job.attempts_max
            self.drained.ran.append(Ran(job, "dead" if is_dead else "retried", error))


class RecordedStore(StoreDelegate):
    """A store that notes what is submitted and settled, whoever does it."""

    def __init__(self, store: Store, record: Record) -> None:
        super().__init__(store)
        self._record = record

    async def enqueue(self, jobs: Iterable[NewJob], *, connection: Any = None) -> list[Ticket]:
        """Accept jobs."""
        jobs = list(jobs)
        tickets = await self._store.enqueue(jobs, connection=connection)
        self._record.accepted(jobs, tickets)
        return tickets

    async def settle(self, settlements: Iterable[Settlement], *, worker: str) -> None:
        """Say what became of leased jobs."""
        settlements = list(settlements)
        await self._store.settle(settlements, worker=worker)
        self._record.settled(settlements)

    async def turn(
        self, settlements: Iterable[Settlement], queue: str, **options: Any
    ) -> list[Claim]:
        """Settle, then claim."""
        settlements = list(settlements)
        claims = await self._store.turn(settlements, queue, **options)
        self._record.settled(settlements)
        return claims

    async def apply(self, change: Change) -> list[Ticket]:
        """Do all that a change says."""
        tickets = await self._store.apply(change)
        self._record.accepted(change.enqueue, tickets)
        self._record.settled(change.settle)
        return tickets

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Open a transaction; what was done in it is noted when it has committed."""
        async with self._store.transaction() as transaction:
            noted = _RecordedTransaction(transaction)
            yield noted
        for jobs, tickets in noted.accepted:
            self._record.accepted(jobs, tickets)
        self._record.settled(noted.settlements)


class _RecordedTransaction(_Verbs):
    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.accepted: list[tuple[list[NewJob], list[Ticket]]] = []
        self.settlements: list[Settlement] = []

    async def enqueue(self, jobs: Iterable[NewJob]) -> list[Ticket]:
        jobs = list(jobs)
        tickets = await self._transaction.enqueue(jobs)
        self.accepted.append((jobs, tickets))
        return tickets

    async def settle(self, settlements: Iterable[Settlement], *, worker: str) -> None:
        settlements = list(settlements)
        await self._transaction.settle(settlements, worker=worker)
        self.settlements += settlements

    async def apply(self, change: Change) -> list[Ticket]:
        tickets = await self._transaction.apply(change)
        self.accepted.append((list(change.enqueue), tickets))
        self.settlements += change.settle
        return tickets

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return getattr(self._transaction, name)

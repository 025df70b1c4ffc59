"""A store whose verbs write down what is asked of them and what they answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from time import monotonic
from typing import Any
from uuid import UUID

from inturn.model import bounds
from inturn.model.errors import StoreError
from inturn.model.job import JobState, NewJob, Ticket
from inturn.model.lease import Claim, Lease, Reclaimed
from inturn.policy.raised import describe
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Retry
from inturn.store.delegate import StoreDelegate
from inturn.store.store import Store
from inturn.store.transaction import Transaction
from inturn.verify import history
from inturn.verify.points import Points

_calls = count(1)  # of this process: an answer names the call that it is to


class RecordingStore(StoreDelegate):
    """A store that keeps a history. Every verb does what it does without one.

    A process that dies after a call has written down its answer: rules may then hold the store to
    it, though nobody acted on it.
    """

    def __init__(self, store: Store, written: history.History, points: Points) -> None:
        super().__init__(store)
        self._history, self._points = written, points

    async def enqueue(self, jobs: Iterable[NewJob], *, connection: Any = None) -> list[Ticket]:
        """Accept jobs."""
        jobs = list(jobs)
        call = next(_calls)
        self._history.write(history.Submitting(call=call, jobs=tuple(map(_planned, jobs))))
        self._points.reach("before-enqueue")
        with self._doubting(call):
            tickets = await self._store.enqueue(jobs, connection=connection)
        places = tuple(history.Place(t.id, t.lane, t.position, t.duplicate) for t in tickets)
        self._history.write(history.Accepted(call=call, places=places))
        self._points.reach("after-enqueue")
        return tickets

    async def cancel(self, job: UUID, *, by: str) -> JobState:
        """Cancel a job."""
        self._history.write(history.Cancelling(job=job))
        self._points.reach("before-cancel")
        state = await self._store.cancel(job, by=by)
        self._history.write(history.Cancelled(job=job, state=state))
        return state

    async def claim(
        self, queue: str, *, lease_seconds: float = bounds.LEASE_SECONDS_DEFAULT, **options: Any
    ) -> list[Claim]:
        """Lease jobs."""
        asked_at = monotonic()
        self._points.reach("before-claim")
        claims = await self._store.claim(queue, lease_seconds=lease_seconds, **options)
        self._note_claims(queue, asked_at, lease_seconds, claims)
        self._points.reach("after-claim")
        return claims

    async def settle(self, settlements: Iterable[Settlement], *, worker: str) -> None:
        """Say what became of leased jobs."""
        settlements = list(settlements)
        with self._settling(settlements, "settle"):
            await self._store.settle(settlements, worker=worker)
        self._points.reach("after-settle")

    async def turn(
        self,
        settlements: Iterable[Settlement],
        queue: str,
        *,
        lease_seconds: float = bounds.LEASE_SECONDS_DEFAULT,
        **options: Any,
    ) -> list[Claim]:
        """Settle, then claim."""
        settlements = list(settlements)
        asked_at = monotonic()
        with self._settling(settlements, "turn"):
            claims = await self._store.turn(
                settlements, queue, lease_seconds=lease_seconds, **options
            )
        self._note_claims(queue, asked_at, lease_seconds, claims)
        self._points.reach("after-turn")
        return claims

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Open a transaction, which says that its job is done when it commits."""
        call: int | None = None
        try:
            async with self._store.transaction() as transaction:
                watched = _RecordingTransaction(transaction)
                yield watched
                if watched.settlements:
                    call = self._note_settling(watched.settlements)
                    self._points.reach("before-commit")
        except StoreError as error:
            if call is not None:
                self._history.write(history.Doubted(call=call, error=_named(error)))
            raise
        except Exception as error:
            if call is not None:
                self._history.write(history.Refused(call=call, error=_named(error)))
            raise
        if call is not None:
            self._history.write(history.Settled(call=call))

    async def extend(
        self, leases: Iterable[Lease], *, lease_seconds: float = bounds.LEASE_SECONDS_DEFAULT
    ) -> list[Lease]:
        """Prolong leases."""
        leases = list(leases)
        asked_at = monotonic()
        self._points.reach("before-extend")
        lost = await self._store.extend(leases, lease_seconds=lease_seconds)
        gone = {(lease.token, lease.lane) for lease in lost}
        kept = tuple(p for lease in leases if (p := (lease.token, lease.lane)) not in gone)
        if kept:
            self._history.write(
                history.Extended(asked_at=asked_at, lease_seconds=lease_seconds, kept=kept)
            )
        self._points.reach("after-extend")
        return lost

    async def reclaim(self, **options: Any) -> Reclaimed:
        """Take back leases that ran out."""
        found = await self._store.reclaim(**options)
        if found.leases:
            self._history.write(
                history.Reclaimed(leases=found.leases, suspects=found.suspects, buried=found.buried)
            )
        return found

    def _note_claims(
        self, queue: str, asked_at: float, lease_seconds: float, claims: Iterable[Claim]
    ) -> None:
        leases = tuple(
            history.Leased(
                claim.lease.token,
                claim.lease.lane,
                claim.lease.key,
                claim.lease.alone,
                tuple((job.id, job.position, job.attempt) for job in claim.jobs),
            )
            for claim in claims
        )
        if leases:
            self._history.write(
                history.Claimed(
                    asked_at=asked_at, queue=queue, lease_seconds=lease_seconds, leases=leases
                )
            )

    @contextmanager
    def _settling(self, settlements: Sequence[Settlement], verb: str) -> Iterator[None]:
        self._points.reach(f"before-{verb}")
        call = self._note_settling(settlements)
        with self._doubting(call):
            yield
        self._history.write(history.Settled(call=call))

    def _note_settling(self, settlements: Iterable[Settlement]) -> int:
        call = next(_calls)
        verdicts = tuple(
            history.Verdict(outcome.job.id, one.lease.token, one.lease.lane, _said(outcome))
            for one in settlements
            for outcome in one.outcomes
        )
        self._history.write(history.Settling(call=call, verdicts=verdicts))
        return call

    @contextmanager
    def _doubting(self, call: int) -> Iterator[None]:
        """Write down that a call failed: refused, or it cannot be known."""
        try:
            yield
        except StoreError as error:
            self._history.write(history.Doubted(call=call, error=_named(error)))
            raise
        except Exception as error:
            self._history.write(history.Refused(call=call, error=_named(error)))
            raise


class _RecordingTransaction(Transaction):
    """A transaction that keeps what was settled in it until it commits."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.settlements: list[Settlement] = []

    async def enqueue(self, jobs: Iterable[NewJob]) -> list[Ticket]:
        """Accept jobs, with the rest of the transaction."""
        return await self._transaction.enqueue(jobs)

    async def execute(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Run a statement of the caller's own."""
        return await self._transaction.execute(sql, *arguments)

    async def settle(self, settlements: Iterable[Settlement], *, worker: str) -> None:
        """Say what became of leased jobs, with the rest of the transaction."""
        settlements = list(settlements)
        await self._transaction.settle(settlements, worker=worker)
        self.settlements += settlements


def _planned(job: NewJob) -> history.Planned:
    return history.Planned(
        job.id,
        job.kind,
        job.queue,
        job.key,
        job.round,
        job.delay_seconds,
        job.attempts_max,
        job.dedupe,
        tuple(sorted(job.after)),
    )


def _said(outcome: Outcome) -> history.Said:
    match outcome.verdict:
        case Done():
            return "done"
        case Retry(counted=counted):
            return "retry" if counted else "retry-uncounted"
        case Bury():
            return "bury"
        case _:
            return "release"


def _named(error: Exception) -> str:
    return describe(error)[:200]

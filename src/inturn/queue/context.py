"""What a handler may ask about the attempt it is: which, under which lease, until when."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from inturn.model.admissible import check_progress
from inturn.model.job import LeasedJob

if TYPE_CHECKING:
    from inturn.queue.transaction import JobTransaction
    from inturn.store.queries import Query


ROUNDING = 1e-6


class AttemptStore(Protocol):
    """The store as one running attempt may use it: over its lease, or over a pipe to the worker."""

    @property
    def is_lost(self) -> bool:
        """Whether the job is someone else's by now, as far as is known here."""
        ...

    async def heartbeat(self) -> None:
        """Prolong the lease now; raise ``LeaseLost`` if it is gone."""
        ...

    async def progress(self, fraction: float, note: str) -> None:
        """Let it be known how far the job is; raise ``LeaseLost`` if the lease is gone."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[JobTransaction]:
        """Open the transaction that also says that the job is done."""
        ...

    async def done_with(self, query: Query[Any], row: Any) -> None:
        """Write a row, and that the job is done, in a transaction that others may share."""
        ...

    async def call(self, kind: str, payload: str, timeout_seconds: float | None) -> Any:
        """Run another job of the app as a part of the attempt, and return what it returns."""
        ...


class Context:
    """The attempt a handler runs in. A handler gets it by a first parameter of this type."""

    __slots__ = ("_store", "deadline", "job", "token")

    def __init__(
        self, job: LeasedJob, token: int, deadline: datetime | None, store: AttemptStore
    ) -> None:
        self.job = job
        self.token = token  # of the lease: it only goes up, so it fences writes elsewhere
        self.deadline = deadline  # when the attempt is ended at its timeout; None: it has none
        self._store = store

    @property
    def id(self) -> UUID:
        """The job's id: the same in every attempt, so it makes a good idempotency key."""
        return self.job.id

    @property
    def attempt(self) -> int:
        """Which attempt this is; the first is 1."""
        return self.job.attempt

    @property
    def is_last_attempt(self) -> bool:
        """Whether a failure now makes the job a dead letter."""
        return self.job.attempt >= self.job.attempts_max

    @property
    def is_lost(self) -> bool:
        """Whether the worker has heard that the job is someone else's now.

        For a ``def``, which cannot be cancelled from outside, to look at between two steps: what
        it does from then on another worker does as well. Costs nothing, and knows what the last
        heartbeat knew; ``heartbeat`` asks the store.
        """
        return self._store.is_lost

    async def heartbeat(self) -> None:
        """Check that the job is still this worker's; raise ``LeaseLost`` if it is not.

        Workers extend their leases themselves. Call this before doing what must not happen twice.
        """
        await self._store.heartbeat()

    async def progress(self, fraction: float, note: str = "") -> None:
        """Report how far the job is, from 0 to 1, and in words. ``inturn jobs show`` prints it.

        It is written about once a second, however often you call it. Raises ``LeaseLost`` if the
        job is no longer this worker's. From a ``def``: ``app.sync(ctx.progress(0.4))``.
        """
        fraction = _rounded(fraction)
        check_progress(fraction, note)
        await self._store.progress(float(fraction), note)

    def transaction(self) -> AbstractAsyncContextManager[JobTransaction]:
        """Open one transaction for the handler's own rows, for jobs, and for the job's completion.

        It commits all or nothing: if the lease was lost meanwhile it raises ``LeaseLost``, and
        nothing of it happened. After it the job is done, or what ``t.verdict`` says; what the
        handler returns is not kept.
        A job with ``process=True`` has no transaction: the connection is the worker's.
        """
        return self._store.transaction()

    async def done_with(self, query: Query[Any], row: Any) -> None:
        """Write one row and that the job is done, together: cheaper than a transaction.

        The query is one that ``run_many`` takes. The ends of other jobs may be written with it, so
        it is for what needs no read in between. What the handler returns is not kept.
        """
        await self._store.done_with(query, row)

    async def call(self, kind: str, payload: str, *, timeout: float | None = None) -> Any:
        """Run another job of the app here, as a part of this attempt: for applications.

        Its hooks, its timeout, its thread or process are as a worker gives them. Returns what its
        handler returns and raises what it raises; of a job with ``process=True``, ``Reject`` or
        what describes the error. It has no ``ctx.transaction()``: this attempt writes its end.
        """
        return await self._store.call(kind, payload, timeout)


def _rounded(fraction: Any) -> Any:
    """Return 1 for what is added up from parts to all of it and a rounding more; so with 0."""
    if isinstance(fraction, float) and -ROUNDING < fraction < 1.0 + ROUNDING:
        return min(max(fraction, 0.0), 1.0)
    return fraction

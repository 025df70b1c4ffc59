"""From a running handler back to the store: under the lease of its own job."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from inturn.model.admissible import listed
from inturn.model.errors import BadInput, LeaseLost
from inturn.model.job import LeasedJob, NewJob, Ticket
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Done
from inturn.queue.app import App
from inturn.queue.context import JobTransaction
from inturn.queue.job import Call, check_distinct
from inturn.store.store import Store
from inturn.store.transaction import Transaction
from inturn.worker.reporter import Reporter
from inturn.worker.runs import Run
from inturn.worker.uncut import seen_through

COMMIT_SECONDS_MAX = 10.0
"""For so long a handler that is cancelled waits to hear whether its transaction has committed."""


class CallTransaction:
    """A transaction that also accepts jobs as users have them: ``send.call(…)``."""

    def __init__(self, transaction: Transaction, app: App) -> None:
        self._transaction, self._app = transaction, app
        self.execute = transaction.execute

    async def enqueue(self, jobs: Iterable[NewJob | Call[Any]]) -> list[Ticket]:
        """Accept jobs, with the rest of the transaction."""
        given = listed("jobs", jobs)
        calls = [one for one in given if isinstance(one, Call)]
        for call in calls:
            call.check_for(self._app)
        check_distinct(calls)
        made = [one.new if isinstance(one, Call) else one for one in given]
        return await self._transaction.enqueue(made)


class LeaseWay:
    """The ways of one job, by its lease."""

    __slots__ = (
        "_app", "_is_open", "_job", "_lease_seconds", "_reporter", "_run", "_store", "_worker",
        "is_settled", "is_settling",
    )  # fmt: skip

    def __init__(
        self,
        store: Store,
        worker: str,
        run: Run,
        job: LeasedJob,
        lease_seconds: float,
        app: App,
    ) -> None:
        self._store, self._worker, self._run, self._job = store, worker, run, job
        self._lease_seconds, self._app = lease_seconds, app
        self._is_open = False  # its transaction
        self._reporter: Reporter | None = None  # made by a handler that says how far it is
        self.is_settling = False  # its transaction is about to say whether the job is done
        self.is_settled = False

    @property
    def is_lost(self) -> bool:
        """Whether the job is someone else's by now, as far as the worker has heard."""
        return self._run.is_lost and not self.is_settled

    async def heartbeat(self) -> None:
        """Prolong the lease now; raise ``LeaseLost`` if it is gone."""
        if self.is_settled:
            return  # its own transaction has said that the job is done: nobody runs it again
        lease = self._run.lease
        lost = await self._store.extend([lease], lease_seconds=self._lease_seconds)
        if lost or self._run.is_over:
            raise LeaseLost([lease.token])

    async def progress(self, fraction: float, note: str) -> None:
        """Let it be known how far the job is; raise ``LeaseLost`` if the lease is gone."""
        if self.is_settled:
            return
        if self._run.is_over:
            raise LeaseLost([self._run.lease.token])
        if self._reporter is None:
            self._reporter = Reporter(self._report)
        await self._reporter.say(fraction, note)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[JobTransaction]:
        """Open a transaction that says, when it commits, that the job is done."""
        if self.is_settled:
            raise BadInput(
                "the job is done: its transaction has committed, and an attempt has one. Write all "
                "that belongs to it inside that one."
            )
        if self._is_open:
            raise BadInput(
                "the job's transaction is open, and an attempt has one: a second would say that "
                "the job is done before the first has committed. Write inside the first."
            )
        self._is_open = True
        try:
            await self._run.said()  # a lane is settled in order: first the jobs before it
            async with AsyncExitStack() as stack:
                transaction = await stack.enter_async_context(self._store.transaction())
                yield CallTransaction(transaction, self._app)
                done = Settlement(self._run.lease, [Outcome(self._job, Done())])
                self.is_settling = True
                await transaction.settle([done], worker=self._worker)
                # Who is cancelled in the middle of a commit must know whether the job is done.
                await seen_through(self._commit(stack.pop_all()), seconds_max=COMMIT_SECONDS_MAX)
        finally:
            self.is_settling = self._is_open = False

    async def _commit(self, transaction: AsyncExitStack) -> None:
        await transaction.aclose()
        self.is_settled = True

    def end(self) -> None:
        """Hear that the attempt has ended."""
        if self._reporter is not None:
            self._reporter.end()

    async def _report(self, fraction: float, note: str) -> None:
        await self._store.progress(self._run.lease, self._job.id, fraction=fraction, note=note)

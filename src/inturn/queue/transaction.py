"""A transaction as users have it: their own rows and jobs, and a handler's verdict, together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import UUID

from inturn.model import bounds
from inturn.model.admissible import check_name, check_whole, listed, shown
from inturn.model.errors import BadInput, StoreError
from inturn.model.job import NewJob
from inturn.model.job import Ticket as Accepted
from inturn.policy.settlement import Settlement
from inturn.policy.verdict import Bury, Done, Retry
from inturn.queue.job import Call, check_distinct, id_of
from inturn.queue.ticket import Ticket
from inturn.store.change import Change
from inturn.store.queries import Query, Row
from inturn.store.transaction import Transaction

if TYPE_CHECKING:
    from inturn.queue.app import App

R = TypeVar("R")


class AppTransaction:
    """One transaction of the store, for rows of your own and for jobs.

    ``execute``, ``run`` and ``run_many`` happen at once, and what comes later sees it. ``cancel``,
    ``submit``, ``submit_many``, ``open_gate`` and ``advance_gate`` are noted, and happen at the
    commit, in this order. So nobody waits for their locks while your code runs, and
    what they refuse (``QueueFull``, ``DedupeConflict``, ``UnknownJob``) is raised at the end of the
    block; then nothing of the transaction happened.
    """

    def __init__(self, app: App, *, by: str = "its producer") -> None:
        self._app, self._by = app, by
        self._transaction: Transaction | None = None  # while it is open
        self._cancelled: dict[UUID, None] = {}
        self._submitted: list[tuple[Call[Any], Ticket[Any]]] = []
        self._gates: list[tuple[str, int | None]] = []

    # At once

    async def execute(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Run a statement of your own, in the store's dialect, and return its rows."""
        return await self._open().execute(sql, *arguments)

    async def run(self, query: Query[Row], /, **parameters: Any) -> list[Row]:
        """Run a query of your own and return its rows."""
        return await self._open().run(query, **parameters)

    async def run_many(self, query: Query[Any], rows: Iterable[Any]) -> None:
        """Run a query over many rows, Structs or dicts: ``inturn.Query`` says how it reads them."""
        await self._open().run_many(query, rows)

    # At the commit

    async def submit(self, call: Call[R]) -> Ticket[R]:
        """Submit a job, ``send.call(…)``. The ticket's id is known at once, its place after the
        commit; with ``dedupe`` it may then be the first job's ticket.
        """
        [ticket] = await self.submit_many([call])
        return ticket

    async def submit_many(self, calls: Iterable[Call[R]]) -> list[Ticket[R]]:
        """Submit jobs, in this order within each key."""
        self._open()
        calls = listed("calls", calls)
        for call in calls:
            if not isinstance(call, Call):
                raise BadInput(f"submit_many takes calls, job.call(…), not {shown(call)}.")
            call.check_for(self._app)
        check_distinct(calls)
        for call in calls:
            call.check_not_submitted()
        tickets: list[Ticket[R]] = [
            Ticket(self._app, Accepted(call.id), call.hint) for call in calls
        ]
        for call, ticket in zip(calls, tickets, strict=True):
            call.is_submitted = True
            self._submitted.append((call, ticket))
        return tickets

    async def cancel(self, job: Ticket[Any] | Call[Any] | UUID) -> None:
        """Cancel a job, unless it runs or has ended by then."""
        self._open()
        self._cancelled[id_of("cancel", job)] = None

    async def open_gate(self, queue: str, round: int) -> None:
        """Open a queue's gate as far as a round."""
        self._open()
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_whole("round", round, 0, bounds.ROUND_MAX)
        self._gates.append((queue, round))

    async def advance_gate(self, queue: str) -> None:
        """Open the queue's next round that has jobs if nothing of the open ones is unfinished."""
        self._open()
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        self._gates.append((queue, None))

    # For our own applications, and so not in the reference.

    async def enqueue(self, jobs: Iterable[NewJob]) -> list[Accepted]:
        return await self._open().enqueue(jobs)

    # For whoever opens it, and so not in the reference: it stands around a transaction of the
    # store, to hear whether that was committed, and finishes inside of it.

    def __enter__(self) -> Self:
        return self

    def begin(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def finish(self, settle: Sequence[Settlement] = (), *, worker: str = "") -> None:
        transaction, self._transaction = self._open(), None
        change = Change(
            settle=settle,
            worker=worker,
            cancel=list(self._cancelled),
            by=self._by,
            enqueue=[call.new for call, _ in self._submitted],
            gates=self._gates,
        )
        accepted = await transaction.apply(change)
        for one, (_, ticket) in zip(accepted, self._submitted, strict=True):
            ticket.accept(one)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._transaction = None
        if kind is not None:
            for call, _ in self._submitted:
                call.is_submitted = False  # after all

    def _open(self) -> Transaction:
        if self._transaction is None:
            raise StoreError("this transaction is over. Open another, and write inside its block.")
        return self._transaction


@asynccontextmanager
async def app_transaction(app: App) -> AsyncIterator[AppTransaction]:
    """Open a transaction on the store of this loop."""
    async with app.connections.lent() as store:
        with AppTransaction(app) as transaction:
            async with store.transaction() as inner:
                transaction.begin(inner)
                yield transaction
                await transaction.finish()


class JobTransaction(AppTransaction):
    """The transaction of a handler: it also says what becomes of the handler's own job.

    ``verdict`` says it: done, unless you set ``t.verdict = Retry(60.0, "not yet")`` or
    ``Bury("no such customer")``. It is settled at the commit, before what was noted. Return soon
    after a ``Retry``: when its time has come the job may run again, on another worker.
    """

    verdict: Done | Retry | Bury = Done()

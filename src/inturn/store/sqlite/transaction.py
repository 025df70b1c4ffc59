"""One transaction for settle, enqueue and the caller's own statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any
from uuid import UUID

from inturn.model.errors import LeaseLost, StoreError
from inturn.model.job import JobState, NewJob, Ticket
from inturn.model.lane import Gate
from inturn.policy.settling import Settling
from inturn.store.change import Checked
from inturn.store.queries import Query, Row, slices
from inturn.store.sqlite import own_queries, queues
from inturn.store.sqlite.cancel import cancel
from inturn.store.sqlite.enqueue import enqueue
from inturn.store.sqlite.faults import store_error, transaction_over
from inturn.store.sqlite.rows import Micros, micros
from inturn.store.sqlite.settle import settle
from inturn.store.sqlite.writer import Result, Turn, Work, Writer
from inturn.store.transaction import Transaction


class SqliteTransaction(Transaction):
    """A transaction that holds the writer until it is committed or rolled back."""

    def __init__(self, writer: Callable[[], Writer], path: str) -> None:
        self._writer, self._path = writer, path
        self._turn: Turn | None = None
        self._lost: LeaseLost | None = None

    async def __aenter__(self) -> SqliteTransaction:
        self._turn = await self._writer().take_turn()
        try:
            await self._work(_begin)
        except BaseException:
            self._turn.end()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._turn is not None
        try:
            if kind is None and self._lost is None:
                await self._work(_checked(_commit), is_last=True)
            else:
                await self._work(_rollback, is_last=True)
        finally:
            self._turn.end()
            self._turn = None
        if kind is None and self._lost is not None:
            raise self._lost

    async def _enqueue(self, jobs: list[NewJob]) -> list[Ticket]:
        return await self._verb(partial(enqueue, jobs=jobs))

    async def _settle(self, settling: Settling) -> None:
        await self._verb(partial(settle, settling=settling))

    async def _cancel(self, job: UUID, by: str) -> JobState:
        return await self._verb(partial(cancel, job=job, by=by))

    async def _open_gate(self, queue: str, round: int) -> int:
        return await self._verb(partial(queues.open_gate, queue=queue, round=round))

    async def _advance_gate(self, queue: str) -> Gate:
        return await self._verb(partial(queues.advance_gate, queue=queue))

    async def _apply(self, change: Checked) -> list[Ticket]:
        return await self._verb(partial(apply, change=change))

    async def _execute(self, sql: str, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        bound = [_bound(argument) for argument in arguments]
        return await self._go_on(lambda connection, now: connection.execute(sql, bound).fetchall())

    async def _run(self, query: Query[Row], given: Mapping[str, Any]) -> list[Row]:
        return await self._go_on(partial(own_queries.run, query=query, given=given))

    def _slices(self, rows: Iterable[Any]) -> Iterator[str]:
        return slices(rows, micros)

    async def _verb(self, work: Work[Result]) -> Result:
        try:
            return await self._go_on(partial(_within_savepoint, work))
        except LeaseLost as error:
            self._lost = error
            raise

    async def _go_on(self, work: Work[Result]) -> Result:
        """Do something more in the transaction, if SQLite has not given it up."""
        return await self._work(_checked(work))

    async def _work(self, work: Work[Result], *, is_last: bool = False) -> Result:
        if self._turn is None:
            raise transaction_over()
        try:
            return await (self._turn.run_last(work) if is_last else self._turn.run(work))
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_ERROR:
                raise  # the caller's own statement is wrong, and SQLite says how
            raise store_error(error, self._path) from error


def apply(connection: sqlite3.Connection, now: Micros, change: Checked) -> list[Ticket]:
    """Do what a change says, in its order; return the tickets of what it enqueues."""
    for query, given in change.rows:
        own_queries.run(connection, now, query, given)
    if change.settling is not None:
        settle(connection, now, change.settling)
    for job in change.cancel:
        cancel(connection, now, job, by=change.by)
    tickets = enqueue(connection, now, change.jobs)
    for queue, round in change.gates:
        if round is None:
            queues.advance_gate(connection, now, queue)
        else:
            queues.open_gate(connection, now, queue, round=round)
    return tickets


def _checked(work: Work[Result]) -> Work[Result]:
    """Return a work that looks first whether SQLite has given the transaction up."""

    def checked(connection: sqlite3.Connection, now: Micros) -> Result:
        if not connection.in_transaction:
            raise StoreError(
                "an error inside this transaction was caught and SQLite had given it up by then, "
                "as on a full disk: nothing of it was stored. Let errors leave the block."
            )
        return work(connection, now)

    return checked


def _begin(connection: sqlite3.Connection, now: Micros) -> None:
    connection.execute("begin immediate")


def _commit(connection: sqlite3.Connection, now: Micros) -> None:
    connection.execute("commit")


def _rollback(connection: sqlite3.Connection, now: Micros) -> None:
    if connection.in_transaction:
        connection.execute("rollback")


def _within_savepoint(work: Work[Result], connection: sqlite3.Connection, now: Micros) -> Result:
    """Run a verb so that its failure leaves nothing of it behind in the transaction."""
    connection.execute("savepoint verb")
    try:
        result = work(connection, now)
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback to verb")
            connection.execute("release verb")
        raise
    connection.execute("release verb")
    return result


def _bound(argument: Any) -> Any:
    """Return an argument as the store keeps its like."""
    if isinstance(argument, UUID):
        return str(argument)
    if isinstance(argument, datetime):
        return micros(argument)
    return argument

"""One transaction for settle, enqueue and the caller's own statements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from inturn.model.errors import LeaseLost, QueueFull, StoreError
from inturn.model.job import NewJob, Ticket
from inturn.policy.settling import Settling
from inturn.store.postgres import own_queries
from inturn.store.postgres.enqueue import accept, with_time
from inturn.store.postgres.faults import told
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.settle import settle
from inturn.store.queries import Query, Row, slices
from inturn.store.transaction import Transaction

MakeQueues = Callable[[Connection, Sequence[NewJob]], Awaitable[None]]


class PostgresTransaction(Transaction):
    """One transaction of the store. ``connection`` is its asyncpg connection.

    ``enqueue`` and ``settle`` run in a savepoint: one that fails leaves the transaction as it was
    before. A lost lease spoils all of it, also when the caller catches the error.
    """

    def __init__(
        self, connection: Connection, now: datetime | None, make_queues: MakeQueues
    ) -> None:
        self.connection = connection
        self.lost: LeaseLost | None = None
        self.is_over = False
        self._now = now
        self._make_queues = make_queues

    async def _enqueue(self, jobs: list[NewJob]) -> list[Ticket]:
        self._check_open()
        if not jobs:
            return []
        await self._make_queues(self.connection, jobs)
        with told():
            try:
                with told():
                    return await accept(self.connection, jobs, self._now)
            except QueueFull as full:
                raise await with_time(self.connection, full, self._now) from full

    async def _settle(self, settling: Settling) -> None:
        self._check_open()
        try:
            with told():
                async with self.connection.transaction():
                    await settle(self.connection, settling, self._now)
        except LeaseLost as error:
            self.lost = error
            raise

    async def _execute(self, sql: str, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        self._check_open()
        return [tuple(row) for row in await self.connection.fetch(sql, *arguments)]

    async def _run(self, query: Query[Row], given: Mapping[str, Any]) -> list[Row]:
        self._check_open()
        with told():
            return await own_queries.run(self.connection, query, given, self._now)

    def _slices(self, rows: Iterable[Any]) -> Iterator[str]:
        return slices(rows)

    def _check_open(self) -> None:
        if self.is_over:
            raise StoreError("this transaction is over. Open another with store.transaction().")

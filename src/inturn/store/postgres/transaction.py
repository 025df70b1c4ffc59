"""One transaction for settle, enqueue and the caller's own statements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from inturn.model import bounds
from inturn.model.admissible import check_jobs, check_name, listed
from inturn.model.errors import LeaseLost, QueueFull, StoreError
from inturn.model.job import NewJob, Ticket
from inturn.policy.settlement import Settlement
from inturn.store.postgres.accept import accept, with_time
from inturn.store.postgres.faults import told
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.settle import settle
from inturn.store.statement import check_statement

MakeQueues = Callable[[Connection, Sequence[NewJob]], Awaitable[None]]


class PostgresTransaction:
    """One transaction of the store. ``connection`` is its asyncpg connection.

    Each verb runs in a savepoint: one that fails leaves the transaction as it was before. Only a
    lost lease spoils all of it, also when the caller catches the error.
    """

    def __init__(
        self, connection: Connection, now: datetime | None, make_queues: MakeQueues
    ) -> None:
        self.connection = connection
        self.lost: LeaseLost | None = None
        self.is_over = False
        self._now = now
        self._make_queues = make_queues

    async def enqueue(self, jobs: Iterable[NewJob]) -> list[Ticket]:
        """Accept jobs when the transaction commits."""
        self._check_open()
        jobs = listed("jobs", jobs)
        check_jobs(jobs)
        if not jobs:
            return []
        await self._make_queues(self.connection, jobs)
        with told():
            try:
                with told():
                    return await accept(self.connection, jobs, self._now)
            except QueueFull as full:
                raise await with_time(self.connection, full, self._now) from full

    async def settle(self, settlements: Iterable[Settlement], *, worker: str) -> None:
        """Settle when the transaction commits; a lost lease spoils it."""
        self._check_open()
        settlements = listed("settlements", settlements)
        check_name("worker", worker, bounds.WORKER_CHARS_MAX)
        try:
            with told():
                async with self.connection.transaction():
                    await settle(self.connection, settlements, worker, self._now)
        except LeaseLost as error:
            self.lost = error
            raise

    async def execute(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Run a statement of the caller's own and return its rows."""
        self._check_open()
        check_statement(sql)
        async with self.connection.transaction():
            return [tuple(row) for row in await self.connection.fetch(sql, *arguments)]

    def _check_open(self) -> None:
        if self.is_over:
            raise StoreError("this transaction is over. Open another with store.transaction().")

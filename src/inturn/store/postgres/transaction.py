"""One transaction for settle, enqueue and the caller's own statements."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import asyncpg

from inturn.model.errors import LeaseLost, QueueFull, StoreError
from inturn.model.job import JobState, NewJob, Ticket
from inturn.model.lane import Gate
from inturn.policy.settling import Settling
from inturn.store.change import Checked
from inturn.store.postgres import lanes, own_queries
from inturn.store.postgres.enqueue import accept, with_time
from inturn.store.postgres.faults import TOLD, crossed
from inturn.store.postgres.lanes import cancel
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.settle import settle
from inturn.store.queries import Query, Row, slices
from inturn.store.transaction import Transaction

MakeQueues = Callable[[Connection, Iterable[str]], Awaitable[None]]
Answer = TypeVar("Answer")

CROSSED_SECONDS = (0.05, 0.2, 0.8)
"""How long to wait at most before a verb that crossed another's work is tried again, each time."""


class PostgresTransaction(Transaction):
    """One transaction of the store. ``connection`` is its asyncpg connection.

    A verb runs in a savepoint: one that fails leaves the transaction as it was before. A lost lease
    spoils all of it, also when the caller catches the error.
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
        if not jobs:
            return []
        await self._make(job.queue for job in jobs)
        return await self._patiently(lambda: accept(self.connection, jobs, self._now))

    async def _settle(self, settling: Settling) -> None:
        await self._verb(lambda: settle(self.connection, settling, self._now))

    async def _cancel(self, job: UUID, by: str) -> JobState:
        return await self._verb(lambda: cancel(self.connection, job, by, self._now))

    async def _open_gate(self, queue: str, round: int) -> int:
        await self._make([queue])
        return await self._verb(lambda: lanes.open_gate(self.connection, queue, round))

    async def _advance_gate(self, queue: str) -> Gate:
        return await self._verb(lambda: lanes.advance_gate(self.connection, queue))

    async def _apply(self, change: Checked) -> list[Ticket]:
        opened = [queue for queue, round in change.gates if round is not None]
        await self._make([*opened, *(job.queue for job in change.jobs)])
        return await self._verb(lambda: self._apply_all(change))

    async def _apply_all(self, change: Checked) -> list[Ticket]:
        connection, now = self.connection, self._now
        for query, given in change.rows:
            await own_queries.run(connection, query, given, now)
        if change.settling is not None:
            await settle(connection, change.settling, now)
        for job in change.cancel:
            await cancel(connection, job, change.by, now)
        tickets = await accept(connection, change.jobs, now) if change.jobs else []
        for queue, round in change.gates:
            if round is None:
                await lanes.advance_gate(connection, queue)
            else:
                await lanes.open_gate(connection, queue, round)
        return tickets

    async def _make(self, queues: Iterable[str]) -> None:
        self._check_open()
        await self._make_queues(self.connection, queues)

    async def _execute(self, sql: str, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        self._check_open()
        return [tuple(row) for row in await self.connection.fetch(sql, *arguments)]

    async def _run(self, query: Query[Row], given: Mapping[str, Any]) -> list[Row]:
        self._check_open()
        with TOLD:
            return await own_queries.run(self.connection, query, given, self._now)

    def _slices(self, rows: Iterable[Any]) -> Iterator[str]:
        return slices(rows)

    async def _verb(self, verb: Callable[[], Awaitable[Answer]]) -> Answer:
        """Run a verb in a savepoint."""

        async def saved() -> Answer:
            async with self.connection.transaction():
                return await verb()

        return await self._patiently(saved)

    async def _patiently(self, saved: Callable[[], Awaitable[Answer]]) -> Answer:
        """Run what has a savepoint; again if it met with another's work and was undone."""
        self._check_open()
        pauses = iter(CROSSED_SECONDS)
        try:
            with TOLD:
                while True:
                    try:
                        return await saved()
                    except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError) as error:
                        if (pause := next(pauses, None)) is None:
                            raise crossed(error) from error
                    await asyncio.sleep(random.uniform(0, pause))
        except LeaseLost as error:
            self.lost = error
            raise
        except QueueFull as full:
            with TOLD:
                raise await with_time(self.connection, full, self._now) from full

    def _check_open(self) -> None:
        if self.is_over:
            raise StoreError("this transaction is over. Open another with store.transaction().")

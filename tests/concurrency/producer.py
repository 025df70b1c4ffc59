"""A producer that enqueues within a transaction of its own, and holds that open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import asyncpg

from inturn.model.job import NewJob, Ticket
from inturn.store.postgres.store import PostgresStore

ISOLATIONS = ("read_committed", "repeatable_read", "serializable")

Opening = Callable[..., Awaitable["OpenProducer"]]


class OpenProducer:
    """One caller: its connection, and its transaction that is not committed yet."""

    def __init__(self, connection: Any, store: PostgresStore, transaction: Any) -> None:
        self.connection = connection
        self._store = store
        self._transaction = transaction

    @classmethod
    async def begin(cls, url: str, store: PostgresStore, isolation: str) -> OpenProducer:
        """Connect, begin, and take the snapshot that higher isolation levels keep."""
        connection: Any = await asyncpg.connect(url)
        transaction = connection.transaction(isolation=isolation)
        await transaction.start()
        await connection.fetchval("select count(*) from inturn.lane")
        return cls(connection, store, transaction)

    async def tickets(self, *jobs: NewJob) -> list[Ticket]:
        return await self._store.enqueue(jobs, connection=self.connection)

    async def enqueue(self, *jobs: NewJob) -> list[UUID]:
        return [ticket.id for ticket in await self.tickets(*jobs)]

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        """Give the transaction up; one whose commit was refused is over already."""
        if self.connection.is_in_transaction():
            await self._transaction.rollback()

    async def close(self) -> None:
        await self.connection.close()

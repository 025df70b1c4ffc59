"""A sandbox's store: it tells a ledger of all that happens there, whoever asked for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from inturn.model.admissible import listed
from inturn.model.job import NewJob, Ticket
from inturn.model.lease import Claim
from inturn.policy.settlement import Settlement
from inturn.store.delegate import StoreDelegate
from inturn.store.protocol import Store, Transaction
from inturn.testing.ledger import Ledger


class PrivateStore(StoreDelegate):
    """A store that tells a ledger what it did, and hears from it when there may be work.

    On a clock that stands still a store's own waking would come late: it waits for real time.
    """

    def __init__(self, store: Store, ledger: Ledger) -> None:
        super().__init__(store)
        self._ledger = ledger

    async def enqueue(self, jobs: Iterable[NewJob], *, connection: Any = None) -> list[Ticket]:
        """Accept jobs."""
        jobs = listed("jobs", jobs)
        tickets = await self._store.enqueue(jobs, connection=connection)
        self._ledger.accepted(jobs, tickets)
        return tickets

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        """Lease jobs."""
        self._ledger.claiming(queue)
        claims = await self._store.claim(queue, **options)
        self._ledger.claimed(queue, claims)
        return claims

    async def settle(self, settlements: Iterable[Settlement], *, worker: str) -> None:
        """Say what became of leased jobs."""
        settlements = listed("settlements", settlements)
        await self._store.settle(settlements, worker=worker)
        self._ledger.settled(settlements)

    async def turn(
        self, settlements: Iterable[Settlement], queue: str, **options: Any
    ) -> list[Claim]:
        """Settle, then claim."""
        settlements = listed("settlements", settlements)
        self._ledger.claiming(queue)
        claims = await self._store.turn(settlements, queue, **options)
        self._ledger.settled(settlements)
        self._ledger.claimed(queue, claims)
        return claims

    async def wait(self, queues: Iterable[str], *, timeout_seconds: float) -> bool:
        """Sleep until work may have arrived in one of the queues."""
        return await self._ledger.wait(frozenset(queues), timeout_seconds)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Open a transaction; its ledger hears of it when it has committed."""
        async with self._store.transaction() as transaction:
            kept = PrivateTransaction(transaction)
            yield kept
        for jobs, tickets in kept.accepted:
            self._ledger.accepted(jobs, tickets)
        self._ledger.settled(kept.settlements)


class PrivateTransaction:
    """A transaction that keeps what was said in it until it commits."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.accepted: list[tuple[list[NewJob], list[Ticket]]] = []
        self.settlements: list[Settlement] = []

    async def enqueue(self, jobs: Iterable[NewJob]) -> list[Ticket]:
        """Accept jobs, with the rest of the transaction."""
        jobs = listed("jobs", jobs)
        tickets = await self._transaction.enqueue(jobs)
        self.accepted.append((jobs, tickets))
        return tickets

    async def settle(self, settlements: Iterable[Settlement], *, worker: str) -> None:
        """Say what became of leased jobs, with the rest of the transaction."""
        settlements = listed("settlements", settlements)
        await self._transaction.settle(settlements, worker=worker)
        self.settlements += settlements

    async def execute(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Run a statement of the caller's own."""
        return await self._transaction.execute(sql, *arguments)

"""The two sides of a comparison: the same few verbs, so that one client drives both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from bench.loads import KIND, QUEUE, Draft
from bench.sizes import BATCH
from inturn.model.job import LeasedJob, NewJob
from inturn.model.lease import Claim
from inturn.policy.settlement import Settlement
from inturn.store.address import connect

SideName = Literal["ours", "apart", "reference", "tuned"]
"""``tuned`` is the reference on PostgreSQL with its claim written in a faster way; ``apart`` is
ours when settling and claiming are two transactions, as in the reference."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Jobs in a consumer's hands: how many, and what the side needs to settle them."""

    size: int
    held: Any


class Side(Protocol):
    """A queue under measurement. A verb is one transaction, committed when it returns."""

    async def create(self) -> None:
        """Make the tables."""
        ...

    async def open(self, connections: int) -> None:
        """Connect, with as many connections as there will be consumers."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...

    async def enqueue(self, drafts: Sequence[Draft], *, queue: str = QUEUE) -> None:
        """Make jobs of drafts and store them."""
        ...

    async def claim(self, worker: str, *, queue: str = QUEUE, jobs_max: int = BATCH) -> Batch:
        """Take jobs, as ``LeasedJob`` objects, to be settled by this worker."""
        ...

    async def settle(self, batch: Batch, worker: str) -> None:
        """Say that a batch is done."""
        ...

    async def turn(self, batch: Batch, worker: str) -> Batch:
        """Say that a batch is done, and take the next, as the side's own worker would."""
        ...

    def jobs(self, batch: Batch) -> list[LeasedJob]:
        """Return a batch's jobs in the order a worker would run them."""
        ...


def side_at(name: SideName, url: str) -> Side:
    """Return a side by name, at a PostgreSQL or SQLite URL; not connected yet."""
    if name == "ours":
        return Ours(url)
    if name == "apart":
        return OursApart(url)
    if url.startswith("sqlite"):
        from bench.reference_sqlite import SqliteReference

        return SqliteReference(url.removeprefix("sqlite:///"))
    from bench.reference import PostgresReference

    return PostgresReference(url, tuned=name == "tuned")


class Ours:
    """inturn, through the verbs of its store."""

    def __init__(self, url: str) -> None:
        self.store = connect(url)

    async def create(self) -> None:
        """Migrate."""
        await self.store.migrate()
        await self.store.close()

    async def open(self, connections: int) -> None:
        """Open the store; its pool connects when consumers first ask at the same time."""
        await self.store.open()

    async def close(self) -> None:
        """Close the store."""
        await self.store.close()

    async def enqueue(self, drafts: Sequence[Draft], *, queue: str = QUEUE) -> None:
        """Enqueue jobs in one call."""
        await self.store.enqueue(
            [NewJob(kind=KIND, payload=payload, queue=queue, key=key) for key, payload in drafts]
        )

    async def claim(self, worker: str, *, queue: str = QUEUE, jobs_max: int = BATCH) -> Batch:
        """Claim jobs."""
        claims = await self.store.claim(queue, jobs_max=jobs_max, worker=worker)
        return Batch(sum(len(claim.jobs) for claim in claims), claims)

    async def settle(self, batch: Batch, worker: str) -> None:
        """Settle every job of the claims as done."""
        claims: list[Claim] = batch.held
        await self.store.settle([Settlement.done(claim) for claim in claims], worker=worker)

    async def turn(self, batch: Batch, worker: str) -> Batch:
        """Settle and claim in one transaction."""
        settlements = [Settlement.done(claim) for claim in batch.held]
        claims = await self.store.turn(settlements, QUEUE, jobs_max=BATCH, worker=worker)
        return Batch(sum(len(claim.jobs) for claim in claims), claims)

    def jobs(self, batch: Batch) -> list[LeasedJob]:
        """Return the jobs of the claims."""
        return [job for claim in batch.held for job in claim.jobs]


class OursApart(Ours):
    """inturn, for a worker that settles in one transaction and claims in the next."""

    async def turn(self, batch: Batch, worker: str) -> Batch:
        """Settle, then claim."""
        await self.settle(batch, worker)
        return await self.claim(worker)

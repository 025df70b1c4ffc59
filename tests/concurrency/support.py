"""Short ways to say what these tests do all the time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from inturn.model.job import JobState, NewJob
from inturn.model.lease import Claim
from inturn.policy.settlement import Settlement
from inturn.store.postgres.store import PostgresStore
from inturn.store.store import Store

QUICK_SECONDS = 40.0
"""Far more than any verb takes on a busy machine; one that waits for a lock fails after 10 s."""

Answer = TypeVar("Answer")


def job(key: str | None = None, **options: Any) -> NewJob:
    options.setdefault("kind", "k")
    return NewJob(key=key, **options)


def jobs(number: int, key: str | None = None, **options: Any) -> list[NewJob]:
    return [job(key, **options) for _ in range(number)]


async def quickly(verb: Awaitable[Answer], seconds: float = QUICK_SECONDS) -> Answer:
    """Await a verb that must not be held up by anyone."""
    async with asyncio.timeout(seconds):
        return await verb


async def held_up(verb: asyncio.Future[Any], seconds: float = 0.2) -> bool:
    """Say whether a verb under way is still not done after a while."""
    await asyncio.wait([verb], timeout=seconds)
    return not verb.done()


async def enqueue(store: Store, *jobs: NewJob) -> list[UUID]:
    return [ticket.id for ticket in await store.enqueue(jobs)]


async def claim(
    store: Store, jobs_max: int = 100, queue: str = "default", worker: str = "w1", **options: Any
) -> list[Claim]:
    return await store.claim(queue, jobs_max=jobs_max, worker=worker, **options)


async def done(store: Store, claims: Sequence[Claim], worker: str = "w1") -> None:
    await store.settle([Settlement.done(claim) for claim in claims], worker=worker)


async def release(store: Store, claims: Sequence[Claim], worker: str = "w1") -> None:
    await store.settle([Settlement.release(claim) for claim in claims], worker=worker)


def ids(claims: Iterable[Claim]) -> list[UUID]:
    return [job.id for claim in claims for job in claim.jobs]


async def drain(store: Store, queue: str = "default", jobs_max: int = 100) -> list[UUID]:
    """Claim and finish jobs until none is left; return them in the order they ran."""
    ran: list[UUID] = []
    while claims := await quickly(claim(store, jobs_max, queue, suspects_max=100)):
        ran += ids(claims)
        await quickly(done(store, claims))
    return ran


async def state(store: Store, job: UUID) -> JobState:
    return (await store.job(job)).state


async def ask(store: PostgresStore, statement: str, *arguments: Any) -> Any:
    """Run a statement past the store's verbs, and return its one value."""
    async with store.transaction() as transaction:
        rows = await transaction.execute(statement, *arguments)
    return rows[0][0] if rows else None


async def sound(store: Store) -> None:
    """Insist that every invariant holds."""
    assert await store.check() == []

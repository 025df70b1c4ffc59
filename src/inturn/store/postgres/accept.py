"""Accepting jobs whatever is known already: a batch may come again, and a full queue says when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from inturn.model import bounds
from inturn.model.errors import JobConflict, QueueFull
from inturn.model.job import NewJob, Ticket
from inturn.policy.dedupe import is_same_work
from inturn.policy.drain import come_back_seconds
from inturn.store.postgres.enqueue import enqueue, tickets
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.sql import query


async def accept(
    connection: Connection, jobs: Sequence[NewJob], now: datetime | None
) -> list[Ticket]:
    """Accept jobs, all or none, in a connection's transaction; known ones keep their tickets."""
    try:
        async with connection.transaction():  # a savepoint
            return await enqueue(connection, jobs, now)
    except asyncpg.UniqueViolationError:
        return await accept_rest(connection, jobs, now)


async def accept_rest(
    connection: Connection, jobs: Sequence[NewJob], now: datetime | None
) -> list[Ticket]:
    """Accept those jobs that are not stored already: after a lost answer, or a known id."""
    async with connection.transaction():
        await check_same(connection, jobs)
        known = await tickets(connection, [job.id for job in jobs])
        fresh = [job for job in jobs if job.id not in known]
        placed = await enqueue(connection, fresh, now) if fresh else []
    known |= {job.id: ticket for job, ticket in zip(fresh, placed, strict=True)}
    return [known[job.id] for job in jobs]


async def check_same(connection: Connection, jobs: Sequence[NewJob]) -> None:
    """Refuse jobs under whose ids other work is stored."""
    by_id = {job.id: job for job in jobs}
    for id, *content in await connection.fetch(query("contents"), list(by_id)):
        if not is_same_work(by_id[id], *content):
            raise JobConflict(id)


async def with_time(connection: Connection, full: QueueFull, now: datetime | None) -> QueueFull:
    """Return a refusal with the time to come back."""
    settled, within_seconds = await connection.fetchrow(
        "select * from inturn.settled_lately($1, $2, $3)",
        full.queue,
        bounds.DRAIN_MINUTES - 1,
        now,
    )
    excess = full.depth + full.added - full.depth_max
    seconds = come_back_seconds(excess, settled=settled, within_seconds=within_seconds)
    return QueueFull(full.queue, full.key, full.depth, full.depth_max, full.added, seconds)

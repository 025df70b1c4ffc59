"""Accepting jobs: alone, in company, or within the caller's own transaction."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from datetime import datetime

import asyncpg

from inturn.model.errors import QueueFull, StoreBusy, StoreError
from inturn.model.job import NewJob, Ticket
from inturn.store.postgres.accept import accept_rest, check_same, with_time
from inturn.store.postgres.company import Company
from inturn.store.postgres.enqueue import accept_one, enqueue, enqueue_together
from inturn.store.postgres.faults import GONE, told
from inturn.store.postgres.open_lanes import OpenLanes
from inturn.store.postgres.pool import Connection, Pool, released
from inturn.store.postgres.sql import query

RETRIES_MAX = 10
"""So often an enqueue of a known job is tried again: each time nothing of it was stored."""

AGAIN = (
    *GONE,
    asyncpg.UniqueViolationError,
    asyncpg.SerializationError,
    asyncpg.InternalServerError,
)
"""What a second try may mend, if it looks first for what the first has stored."""


class Producer:
    """Accepts jobs, all or none."""

    def __init__(self, pool: Pool, now: Callable[[], datetime | None]) -> None:
        self._pool, self._now = pool, now
        self._company = Company(self._together, self._alone)
        self._lanes = OpenLanes()

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        """Accept jobs in a transaction of our own, which other enqueues may share."""
        try:
            with self._pool.working:
                if len(jobs) == 1 and self._company.has_only(jobs[0]):
                    return await self._at_once(jobs)
                return await self._company.enqueue(jobs)
        except QueueFull as full:
            raise await self._with_time(full) from full

    async def enqueue_within(self, connection: Connection, jobs: Sequence[NewJob]) -> list[Ticket]:
        """Accept jobs in the caller's own transaction, which one that is known spoils."""
        await self.make_queues(connection, jobs)
        try:
            with told():
                return await enqueue(connection, jobs, self._now())
        except QueueFull as full:
            raise await self._with_time(full) from full
        except asyncpg.UniqueViolationError as error:
            await self._pool.run(lambda own: check_same(own, jobs))
            raise StoreError(
                "a job of this batch was accepted before, in this transaction or another, and "
                "PostgreSQL has given this transaction up: roll it back and leave the job out."
            ) from error

    async def _at_once(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        """Accept a job that goes straight to its lane and has no company, as most do, over a
        connection that lies at hand. What comes in between is left to the way with patience.
        """
        with self._company:
            if (taken := self._pool.take_now()) is None:
                return await self._alone(jobs)
            pool, connection = taken
            try:
                ticket = await accept_one(connection, jobs[0], self._now(), self._lanes)
            except BaseException as error:
                await released(pool, connection)
                if not isinstance(error, AGAIN):
                    with told():
                        raise
                cut = error if isinstance(error, GONE) else None
            else:
                self._pool.trouble = None
                if not self._pool.keep(pool, connection):
                    await pool.release(connection)
                return [ticket]
            return await self._alone(jobs, again=True, cut=cut)

    async def _together(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        async with self._pool.connection() as connection:
            return await enqueue_together(connection, jobs, self._now())

    async def _alone(
        self, jobs: Sequence[NewJob], *, again: bool = False, cut: Exception | None = None
    ) -> list[Ticket]:
        try:
            return await self._patiently(jobs, again=again)
        except StoreBusy as busy:
            if cut is None:
                raise
            with told():  # an earlier try was sent, and may be committed
                raise cut from busy

    async def _patiently(self, jobs: Sequence[NewJob], *, again: bool) -> list[Ticket]:
        async def verb(connection: Connection) -> list[Ticket]:
            nonlocal again
            if again:
                return await accept_rest(connection, jobs, self._now())
            again = True
            return await enqueue(connection, jobs, self._now(), self._lanes)

        for _ in range(RETRIES_MAX):
            try:
                return await self._pool.run(verb)
            except asyncpg.UniqueViolationError:
                continue  # a job is known already, or someone stored the same meanwhile
        return await self._pool.run(verb)

    async def make_queues(self, connection: Connection, jobs: Sequence[NewJob]) -> None:
        """Make queues that are new apart from the transaction of a connection: while that is open,
        their rows would hold up every other producer of the queue.
        """
        names = sorted({job.queue for job in jobs})
        with told():
            missing = await connection.fetch(query("missing_queues"), names)
        if missing:
            await self._pool.apart(
                lambda own: own.execute(query("make_queues"), [row["name"] for row in missing])
            )

    async def _with_time(self, full: QueueFull) -> QueueFull:
        """Return a refusal with the time to come back."""
        return await self._pool.run(functools.partial(with_time, full=full, now=self._now()))

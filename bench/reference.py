"""The reference on PostgreSQL: one table, ``for update skip locked``, and a delete.

Written with care for speed, in the form most people write it: prepared statements, rows turned into
objects by position, jobs stored by COPY, no transaction block around a single statement, ids that
grow with time. It keeps no order within a key, counts nothing and has no fence but the worker's
name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg

from bench.loads import KIND, QUEUE, Draft
from bench.sides import Batch
from bench.sizes import BATCH
from inturn.model import bounds
from inturn.model.ids import new_id
from inturn.model.job import LeasedJob

TABLES = """
create schema reference;
create table reference.job (
    id uuid primary key,
    queue text not null,
    key text,
    kind text not null,
    payload json not null,
    priority smallint not null,
    run_at timestamptz not null,
    state text not null,
    attempt smallint not null,
    attempts_max smallint not null,
    timeout_seconds double precision,
    worker text,
    lease_until timestamptz,
    enqueued_at timestamptz not null
);
create index job_ready on reference.job (queue, priority desc, run_at, id) where state = 'ready';
"""

CLAIM = """
update reference.job
set state = 'running', attempt = attempt + 1, worker = $2, lease_until = now() + interval '30 s'
where id in (
    select id from reference.job
    where queue = $1 and state = 'ready' and run_at <= now()
    order by priority desc, run_at, id
    limit $3
    for update skip locked
)
returning id, queue, key, kind, payload, priority, attempts_max, timeout_seconds, enqueued_at,
          attempt, run_at, state, worker, lease_until
"""

# The same, but the planner is left no choice: the ids are found first, then fetched by the primary
# key. With one consumer it drained about 1.4 times as fast as the form above.
CLAIM_TUNED = CLAIM.replace("where id in (", "where id = any(array(").replace(
    "for update skip locked\n)", "for update skip locked\n))"
)

SETTLE = "delete from reference.job where id = any($1) and worker = $2"

COLUMNS = (
    "id", "queue", "key", "kind", "payload", "priority", "run_at", "state", "attempt",
    "attempts_max", "enqueued_at",
)  # fmt: skip


class PostgresReference:
    """A plain ``for update skip locked`` queue."""

    def __init__(self, url: str, *, tuned: bool = False) -> None:
        self._url = url
        self._claim = CLAIM_TUNED if tuned else CLAIM
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._held: dict[str, Any] = {}  # each consumer's own connection

    async def create(self) -> None:
        """Make the table and its index."""
        connection = await asyncpg.connect(self._url)
        await connection.execute(TABLES)
        await connection.close()

    async def open(self, connections: int) -> None:
        """Make as many connections as there are consumers."""
        self._pool = await asyncpg.create_pool(
            self._url,
            min_size=connections,
            max_size=connections,
            server_settings={"application_name": "reference", "jit": "off"},
        )

    async def close(self) -> None:
        """Give the connections up."""
        for connection in self._held.values():
            await self._connections.release(connection)
        self._held.clear()
        await asyncio.wait_for(self._connections.close(), 10)

    async def enqueue(self, drafts: Sequence[Draft], *, queue: str = QUEUE) -> None:
        """Store jobs by COPY, a transaction of its own."""
        now = datetime.now(UTC)
        rows = [
            (
                new_id(), queue, key, KIND, payload, 0, now, "ready", 0,
                bounds.ATTEMPTS_DEFAULT, now,
            )
            for key, payload in drafts
        ]  # fmt: skip
        async with self._connections.acquire() as connection:
            await connection.copy_records_to_table(
                "job", schema_name="reference", columns=COLUMNS, records=rows
            )

    async def claim(self, worker: str, *, queue: str = QUEUE, jobs_max: int = BATCH) -> Batch:
        """Mark the first ready rows that nobody has locked as running, and return them."""
        connection = await self._connection(worker)
        rows = await connection.fetch(self._claim, queue, worker, jobs_max)
        jobs = [
            LeasedJob(
                id, queue, key, kind, payload, priority, 0, attempts_max, timeout_seconds,
                enqueued_at, 0, attempt,
            )
            for (
                id, queue, key, kind, payload, priority, attempts_max, timeout_seconds,
                enqueued_at, attempt, _, _, _, _,
            ) in rows
        ]  # fmt: skip
        return Batch(len(jobs), jobs)

    async def settle(self, batch: Batch, worker: str) -> None:
        """Delete the rows of the jobs, if they are still this worker's."""
        ids = [job.id for job in batch.held]
        connection = await self._connection(worker)
        status = await connection.execute(SETTLE, ids, worker)
        if status != f"DELETE {len(ids)}":
            raise AssertionError(f"{len(ids)} jobs were to be deleted: {status}")

    async def turn(self, batch: Batch, worker: str) -> Batch:
        """Delete, then claim: the plain loop."""
        await self.settle(batch, worker)
        return await self.claim(worker)

    def jobs(self, batch: Batch) -> list[LeasedJob]:
        """Return the jobs as they came."""
        return list(batch.held)

    async def _connection(self, worker: str) -> Any:
        """Return a consumer's own connection: no time goes into lending one."""
        if worker not in self._held:
            self._held[worker] = await self._connections.acquire()
        return self._held[worker]

    @property
    def _connections(self) -> asyncpg.Pool[asyncpg.Record]:
        assert self._pool is not None
        return self._pool

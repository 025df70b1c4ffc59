"""The reference on SQLite: one table, ``update … returning``, and a delete.

The settings are those of our store (WAL, synchronous=full, cache, kept WAL) and so are the types of
the columns. It calls sqlite3 directly, without a thread in between, which is the fastest way for a
single consumer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from bench.loads import KIND, QUEUE, Draft
from bench.sides import Batch
from bench.sizes import BATCH
from inturn.model import bounds
from inturn.model.ids import new_id
from inturn.model.job import LeasedJob
from inturn.store.sqlite.connection import open_writer
from inturn.store.sqlite.rows import SECOND, micros, time_of

TABLES = """
create table job (
    id blob not null primary key,
    queue text not null,
    key text,
    kind text not null,
    payload text not null,
    priority integer not null,
    run_at integer not null,
    state text not null,
    attempt integer not null,
    attempts_max integer not null,
    timeout_seconds real,
    worker text,
    lease_until integer,
    enqueued_at integer not null
) strict, without rowid;
create index job_ready on job (queue, priority desc, run_at, id) where state = 'ready';
"""

INSERT = "insert into job values (?, ?, ?, ?, ?, 0, ?, 'ready', 0, ?, null, null, null, ?)"

CLAIM = """
update job set state = 'running', attempt = attempt + 1, worker = ?, lease_until = ?
where id in (
    select id from job
    where queue = ? and state = 'ready' and run_at <= ?
    order by priority desc, run_at, id
    limit ?
)
returning id, queue, key, kind, payload, priority, attempts_max, timeout_seconds, enqueued_at,
          attempt, run_at, state, worker, lease_until
"""


class SqliteReference:
    """A plain queue in one table of a SQLite file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    async def create(self) -> None:
        """Make the table and its index."""
        await self.open(1)
        self._open.executescript(TABLES)
        await self.close()

    async def open(self, connections: int) -> None:
        """Open the file as our store does."""
        self._connection = open_writer(self._path, synchronous="full", busy_seconds=10)

    async def close(self) -> None:
        """Close the file."""
        self._open.close()

    async def enqueue(self, drafts: Sequence[Draft], *, queue: str = QUEUE) -> None:
        """Insert jobs in one transaction."""
        now = micros(datetime.now(UTC))
        self._open.execute("begin immediate")
        self._open.executemany(
            INSERT,
            [
                (new_id().bytes, queue, key, KIND, payload, now, bounds.ATTEMPTS_DEFAULT, now)
                for key, payload in drafts
            ],
        )
        self._open.execute("commit")

    async def claim(self, worker: str, *, queue: str = QUEUE, jobs_max: int = BATCH) -> Batch:
        """Mark the first ready rows as running, and return them."""
        now = micros(datetime.now(UTC))
        rows = self._open.execute(
            CLAIM, (worker, now + 30 * SECOND, queue, now, jobs_max)
        ).fetchall()
        jobs = [
            LeasedJob(
                UUID(bytes=id), queue, key, kind, payload, priority, 0, attempts_max,
                timeout_seconds, time_of(enqueued_at), 0, attempt,
            )
            for (
                id, queue, key, kind, payload, priority, attempts_max, timeout_seconds,
                enqueued_at, attempt, _, _, _, _,
            ) in rows
        ]  # fmt: skip
        return Batch(len(jobs), jobs)

    async def settle(self, batch: Batch, worker: str) -> None:
        """Delete the rows of the jobs, if they are still this worker's."""
        marks = ",".join("?" * batch.size)
        deleted = self._open.execute(
            f"delete from job where id in ({marks}) and worker = ?",
            (*(job.id.bytes for job in batch.held), worker),
        ).rowcount
        if deleted != batch.size:
            raise AssertionError(f"{batch.size} jobs were to be deleted, and {deleted} were")

    async def turn(self, batch: Batch, worker: str) -> Batch:
        """Delete, then claim: the plain loop."""
        await self.settle(batch, worker)
        return await self.claim(worker)

    def jobs(self, batch: Batch) -> list[LeasedJob]:
        """Return the jobs as they came."""
        return list(batch.held)

    @property
    def _open(self) -> sqlite3.Connection:
        assert self._connection is not None
        return self._connection

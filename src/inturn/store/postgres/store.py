"""The PostgreSQL store: each verb one call of the SQL function of the same name."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg

from inturn.model.admissible import listed
from inturn.model.clock import Clock
from inturn.model.errors import StoreError
from inturn.model.job import DeadLetter, JobState, JobView, NewJob, Ticket
from inturn.model.lane import Gate, LaneView, QueueSettings, QueueStatus
from inturn.model.lease import Claim, Lease, Pruned, Reclaimed, Wish
from inturn.model.worker import Stat, WorkerView
from inturn.policy.settling import Settling
from inturn.store.change import Checked
from inturn.store.engine import Decision
from inturn.store.paging import Asked, Page
from inturn.store.postgres import lanes, migrate, own_connection, own_queries, reads, status
from inturn.store.postgres.claim import claim, extend
from inturn.store.postgres.group_commit import Producer
from inturn.store.postgres.listener import Ends, Listener
from inturn.store.postgres.pool import Connection, Pool
from inturn.store.postgres.settle import progress, settle, settled, turn
from inturn.store.postgres.sql import query
from inturn.store.postgres.transaction import PostgresTransaction
from inturn.store.postgres.upkeep import check, prune
from inturn.store.queries import Query, Row, slices
from inturn.store.schema import Schema, check_version, migrations_of
from inturn.store.store import Store

LOCKED_SECONDS = (0.01, 0.04, 0.2)
"""How long to wait before asking again for leases that somebody has locked, each time."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class PostgresStore(Store):
    """A store that many machines share.

    ``patience_seconds``: how long a verb goes on trying while the server is away. ``pooler=True``
    (in a URL: ``?pooler=transaction``) is for servers behind a pooler that hands a connection on
    after every transaction: no prepared statements, no session settings, polling instead of LISTEN.
    """

    is_private = False  # a server is there for others as well
    is_bound_to_loop = True  # as its connections are

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        connections_max: int = 10,
        statement_seconds: float = 30.0,
        lock_seconds: float = 10.0,
        patience_seconds: float = 30.0,
        pooler: bool = False,
    ) -> None:
        self._clock = clock
        self._pool = Pool(
            url,
            connections_max=connections_max,
            statement_seconds=statement_seconds,
            lock_seconds=lock_seconds,
            patience_seconds=patience_seconds,
            pooler=pooler,
        )
        self._listener = Listener(self._pool)
        self._ends = Ends(self._pool, self._listener)
        self._due_known_at: dict[str, datetime] = {}
        self._producer = Producer(self._pool, self._now)

    # Life

    @property
    def trouble(self) -> str | None:
        """Why the server cannot be reached, while it is tried again."""
        return self._pool.trouble

    async def open(self) -> None:
        """Connect, and refuse a database this inturn cannot work with."""
        await self._pool.open()
        try:
            await self._pool.run(migrate.check_engine)
        except BaseException:
            await self._pool.close()
            raise

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        await self._listener.close()
        await self._pool.close()
        self._ensured = frozenset()

    async def migrate(self, schemas: Iterable[Schema] = ()) -> int:
        """Make the engine's tables and those of applications, or bring them to their versions."""
        schemas = listed("schemas", schemas)
        await self._pool.open()
        return await self._pool.run(lambda connection: migrate.migrate(connection, schemas))

    async def versions(self) -> dict[str, int]:
        """Return the version of each owner's tables."""
        found = await self._pool.run(migrate.found_versions)
        return {owner: one.number for owner, one in found.items()}

    async def _ensure(self, schema: Schema) -> None:
        found = await self._pool.run(migrate.found_versions)
        check_version(schema, found, migrations_of(schema, "postgres"))

    async def check(self) -> list[str]:
        """Verify every invariant of the tables."""
        return await self._pool.run(check)

    async def prune(self) -> Pruned:
        """Take away history past its time, idle lanes, and what has expired, in small steps."""
        return await prune(self._pool, self._now())

    # Producers

    async def _enqueue(self, jobs: list[NewJob], connection: Any) -> list[Ticket]:
        if connection is None:
            return await self._producer.enqueue(jobs)
        if not jobs:
            return []
        if isinstance(connection, asyncpg.Connection):
            return await self._producer.enqueue_within(connection, jobs)
        own_connection.check(connection)
        await self.make_queues(job.queue for job in jobs)
        return await own_connection.accept(connection, jobs, self._now())

    def _enqueue_sync(self, jobs: list[NewJob], connection: Any) -> list[Ticket]:
        return own_connection.accept_sync(connection, jobs, self._now())

    async def make_queues(self, queues: Iterable[str]) -> None:
        """Make queues that are not there yet."""
        names = list(queues)
        await self._pool.run(lambda own: self._producer.make_queues(own, names))

    # Workers

    async def _claim(self, wish: Wish) -> list[Claim]:
        return await self._pool.run(lambda connection: claim(connection, wish, self._now()))

    async def _extend(self, leases: list[Lease], lease_seconds: float) -> list[Lease]:
        lost: list[Lease] = []
        for pause in (*LOCKED_SECONDS, None):
            more, leases = await self._pool.run(
                functools.partial(
                    extend, leases=leases, lease_seconds=lease_seconds, now=self._now()
                )
            )
            lost += more
            if not leases or pause is None:
                break
            await asyncio.sleep(pause)  # locked by a settle under the same token, mostly: a moment
        return lost

    async def _progress(self, lease: Lease, job: UUID, fraction: float, note: str) -> None:
        said = functools.partial(progress, lease=lease, job=job, fraction=fraction, note=note)
        await self._pool.run(lambda connection: said(connection, now=self._now()))

    async def _settle(self, settling: Settling) -> None:
        await self._pool.run(lambda connection: settle(connection, settling, self._now()))

    async def _turn(self, settling: Settling, wish: Wish) -> list[Claim]:
        if (arguments := settled(settling, self._now())) is None:
            return await self._claim(wish)
        claims = await self._pool.run(lambda connection: turn(connection, arguments, wish))
        if not claims:
            with contextlib.suppress(StoreError):  # what is settled is settled
                claims = await self._claim(wish)
        return claims

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[PostgresTransaction]:
        """Open one transaction for settle, enqueue and the caller's own statements."""
        async with self._pool.begun() as connection:
            transaction = PostgresTransaction(connection, self._now(), self._producer.make_queues)
            try:
                yield transaction
            finally:
                transaction.is_over = True
            if transaction.lost is not None:
                raise transaction.lost

    async def _reclaim(self, leases_max: int, gone: list[str]) -> Reclaimed:
        async def verb(connection: Connection) -> Reclaimed:
            row = await connection.fetchrow(query("reclaim"), leases_max, gone, self._now())
            await connection.execute(query("sweep"), self._now(), 1)
            return Reclaimed(**row)

        return await self._pool.run(verb)

    async def _wait(self, queues: list[str], timeout_seconds: float) -> bool:
        with self._listener.hearing(queues) as woken:
            seconds = await self._seconds_to_due(queues) if self._clock is None else None
            if seconds is not None and seconds <= timeout_seconds:
                await self._listener.wait(woken, timeout_seconds=seconds)
                return True
            return await self._listener.wait(woken, timeout_seconds=timeout_seconds)

    async def _ended(self, jobs: list[UUID]) -> dict[UUID, JobState | None]:
        now = self._now()
        return await self._pool.run(lambda connection: reads.ended(connection, jobs, now))

    async def _wait_ended(self, queues: list[str], seen: int, timeout_seconds: float) -> int:
        return await self._ends.wait(queues, seen, timeout_seconds)

    async def _seconds_to_due(self, queues: list[str]) -> float | None:
        """Return in how many seconds something is due in one of the queues, if anything will be.

        What is due already is told of once: if it is there the next time, too, nobody here may take
        it, for its queue is paused or its kind is another's.
        """
        known = [self._due_known_at.get(queue, _LONG_AGO) for queue in queues]
        due, now = await self._pool.run(
            lambda connection: connection.fetchrow(query("next_due"), queues, known)
        )
        if due is not None and due <= now:
            self._due_known_at.update(dict.fromkeys(queues, now))
        return None if due is None else (due - now).total_seconds()

    async def _beat(self, worker: WorkerView) -> None:
        await self._pool.run(lambda connection: status.beat(connection, worker, self._now()))

    async def _hold(self, duty: str, worker: str, seconds: float) -> bool:
        asked = (query("hold"), duty, worker, seconds, self._now())
        return bool(await self._pool.run(lambda connection: connection.fetchval(*asked)))

    async def _leave(self, worker: str) -> None:
        await self._pool.run(lambda connection: connection.execute(query("leave"), worker))

    # Operators

    async def _configure(self, queue: str, changes: Mapping[str, Any]) -> QueueSettings:
        return await self._pool.run(lambda connection: lanes.configure(connection, queue, changes))

    async def settings(self) -> dict[str, QueueSettings]:
        """Return how every queue behaves."""
        rows = await self._pool.run(
            lambda connection: connection.fetch("select * from inturn.queue order by name")
        )
        return {row["name"]: status.settings_of(row) for row in rows}

    async def _declarations(self) -> dict[str, dict[str, Any]]:
        return await self._pool.run(lanes.declarations)

    async def _declare(self, declared: Mapping[str, Mapping[str, Any]]) -> None:
        await self._pool.run(lambda connection: lanes.declare(connection, declared))

    async def _drop_queue(self, queue: str) -> bool:
        return await self._pool.run(lambda connection: lanes.drop_queue(connection, queue))

    async def _pause(self, queue: str, key: str | None, by: str) -> None:
        await self._pool.run(
            lambda connection: lanes.pause(connection, queue, key, by, self._now())
        )

    async def _resume(self, queue: str, key: str | None) -> None:
        await self._pool.run(lambda connection: lanes.resume(connection, queue, key, self._now()))

    async def _open_gate(self, queue: str, round: int) -> int:
        return await self._pool.run(lambda connection: lanes.open_gate(connection, queue, round))

    async def _advance_gate(self, queue: str) -> Gate:
        return await self._pool.run(lambda connection: lanes.advance_gate(connection, queue))

    async def _decide_lane(self, queue: str, key: str, decision: Decision, by: str = "") -> UUID:
        return await self._pool.run(
            lambda connection: lanes.decide_lane(connection, queue, key, decision, by, self._now())
        )

    async def _cancel(self, job: UUID, by: str) -> JobState:
        return await self._pool.run(lambda own: lanes.cancel(own, job, by, self._now()))

    async def _dead_retry(self, jobs: list[UUID]) -> list[UUID]:
        rows = await self._pool.run(
            lambda connection: connection.fetch(query("dead_retry"), jobs, self._now())
        )
        return sorted(row["id"] for row in rows)

    async def _dead_drop(self, jobs: list[UUID], by: str) -> list[UUID]:
        rows = await self._pool.run(
            lambda connection: connection.fetch(query("dead_drop"), jobs, by, self._now())
        )
        return sorted(row["id"] for row in rows)

    # Readers

    async def _dead_letters(self, asked: Asked) -> Page[DeadLetter]:
        return await self._pool.run(lambda connection: reads.dead_letters(connection, asked))

    async def _job(self, job: UUID) -> JobView:
        now = await self.now()
        return await self._pool.run(lambda connection: reads.job(connection, job, now))

    async def _jobs(self, states: Sequence[JobState | None], asked: Asked) -> Page[JobView]:
        now = await self.now()
        return await self._pool.run(lambda connection: reads.jobs(connection, states, asked, now))

    async def _jobs_ending(self, ending: str) -> list[UUID]:
        return await self._pool.run(lambda connection: reads.jobs_ending(connection, ending))

    async def _result(self, job: UUID) -> str | None:
        now = await self.now()
        return await self._pool.run(lambda connection: reads.result(connection, job, now))

    async def _explain(self, job: UUID) -> str:
        now = await self.now()
        return await self._pool.run(lambda connection: reads.explain(connection, job, now))

    async def _lanes(
        self, queue: str, key: str | None, cursor: str | None, rows_max: int
    ) -> Page[LaneView]:
        return await self._pool.run(
            lambda connection: status.lanes(
                connection, queue, key=key, cursor=cursor, rows_max=rows_max
            )
        )

    async def queues(self) -> list[QueueStatus]:
        """Return every queue's settings, depth and oldest age."""
        now = await self.now()
        return await self._pool.run(lambda connection: status.queues(connection, now))

    async def workers(self) -> list[WorkerView]:
        """Return the workers that were heard of lately."""
        return await self._pool.run(lambda connection: status.workers(connection, self._now()))

    async def _stats(self, queue: str, since: datetime) -> list[Stat]:
        return await self._pool.run(lambda connection: status.stats(connection, queue, since))

    async def _apply(self, change: Checked) -> list[Ticket]:
        async with self.transaction() as transaction:
            return await transaction._apply(change)

    def _slices(self, rows: Iterable[Any]) -> Iterator[str]:
        return slices(rows)

    async def _run(self, query: Query[Row], given: Mapping[str, Any]) -> list[Row]:
        return await self._pool.run(
            lambda connection: own_queries.read(connection, query, given, self._now())
        )

    async def now(self) -> datetime:
        """Return the store's time: the database's, unless a clock was given."""
        if self._clock is not None:
            return self._clock.now()
        time: datetime = await self._pool.run(
            lambda connection: connection.fetchval("select clock_timestamp()")
        )
        return time

    def _now(self) -> datetime | None:
        """Return the given clock's time; None lets the database use its own."""
        return None if self._clock is None else self._clock.now()

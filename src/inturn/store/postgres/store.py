"""The PostgreSQL store: each verb one call of the SQL function of the same name."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg

from inturn.model import bounds
from inturn.model.admissible import (
    check_by,
    check_filter,
    check_id,
    check_ids,
    check_jobs,
    check_lane,
    check_lease,
    check_name,
    check_number,
    check_processes,
    check_queues,
    check_report,
    check_settings,
    check_state,
    check_time,
    check_whole,
    check_worker,
    listed,
    make_wish,
)
from inturn.model.clock import Clock
from inturn.model.errors import BadInput, StoreError, UnknownJob
from inturn.model.job import DeadLetter, JobState, JobView, NewJob, Ticket
from inturn.model.lane import Gate, LaneView, QueueSettings, QueueStatus
from inturn.model.lease import Claim, Lease, Reclaimed, Wish
from inturn.model.worker import Stat, WorkerView
from inturn.policy.settlement import Settlement
from inturn.store.postgres import checks, lanes, migrate, reads, status
from inturn.store.postgres.claim import claim, extend
from inturn.store.postgres.listener import Listener
from inturn.store.postgres.pool import Connection, Pool
from inturn.store.postgres.producer import Producer
from inturn.store.postgres.progress import progress
from inturn.store.postgres.prune import prune
from inturn.store.postgres.settle import settle, settled
from inturn.store.postgres.sql import query
from inturn.store.postgres.transaction import PostgresTransaction
from inturn.store.postgres.turn import turn
from inturn.store.protocol import Page, Pruned

LOCKED_SECONDS = (0.01, 0.04, 0.2)
"""How long to wait before asking again for leases that somebody has locked, each time."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class PostgresStore:
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
        self._due_known_at: dict[str, datetime] = {}
        self._checked: NewJob | None = None  # one that could be stored
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
            await self._pool.run(migrate.check_version)
        except BaseException:
            await self._pool.close()
            raise

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        await self._listener.close()
        await self._pool.close()

    async def migrate(self) -> int:
        """Bring the tables to this version."""
        await self._pool.open()
        return await self._pool.run(migrate.migrate)

    async def check(self) -> list[str]:
        """Verify every invariant of the tables."""
        return await self._pool.run(checks.check)

    async def prune(self) -> Pruned:
        """Take away history past its time, idle lanes, and what has expired, in small steps."""
        return await prune(self._pool, self._now())

    # Producers

    async def enqueue(self, jobs: Iterable[NewJob], *, connection: Any = None) -> list[Ticket]:
        """Accept jobs, all or none; in the caller's transaction if its connection is given."""
        jobs = listed("jobs", jobs)
        check_jobs(jobs, before=self._checked)
        if connection is not None and not isinstance(connection, asyncpg.Connection):
            raise BadInput("the connection must be one of asyncpg's, in your own transaction.")
        if not jobs:
            return []
        self._checked = jobs[-1]
        if connection is not None:
            return await self._producer.enqueue_within(connection, jobs)
        return await self._producer.enqueue(jobs)

    # Workers

    async def claim(
        self,
        queue: str,
        *,
        jobs_max: int,
        worker: str,
        lease_seconds: float = bounds.LEASE_SECONDS_DEFAULT,
        kinds: Iterable[str] | None = None,
        suspects_max: int = 1,
    ) -> list[Claim]:
        """Lease up to ``jobs_max`` jobs."""
        wish = make_wish(
            queue,
            jobs_max=jobs_max,
            worker=worker,
            lease_seconds=lease_seconds,
            kinds=kinds,
            suspects_max=suspects_max,
        )
        return await self._claim(wish)

    async def extend(
        self, leases: Iterable[Lease], *, lease_seconds: float = bounds.LEASE_SECONDS_DEFAULT
    ) -> list[Lease]:
        """Prolong leases; return those that are lost."""
        leases = listed("leases", leases)
        for lease in leases:
            check_lease(lease)
        check_number("lease_seconds", lease_seconds, 0.001, bounds.LEASE_SECONDS_MAX)
        lost, locked = await self._extend(leases, lease_seconds)
        for pause in LOCKED_SECONDS:  # by a settle under the same token, mostly: a moment
            if not locked:
                break
            await asyncio.sleep(pause)
            more, locked = await self._extend(locked, lease_seconds)
            lost += more
        return lost

    async def _extend(
        self, leases: list[Lease], lease_seconds: float
    ) -> tuple[list[Lease], list[Lease]]:
        return await self._pool.run(
            lambda connection: extend(connection, leases, lease_seconds, self._now())
        )

    async def progress(self, lease: Lease, job: UUID, *, fraction: float, note: str = "") -> None:
        """Say how far a leased job is."""
        check_report(lease, job, fraction, note)
        said = functools.partial(progress, lease=lease, job=job, fraction=fraction, note=note)
        await self._pool.run(lambda connection: said(connection, now=self._now()))

    async def settle(self, settlements: Iterable[Settlement], *, worker: str) -> None:
        """Say what became of leased jobs."""
        settlements = listed("settlements", settlements)
        check_name("worker", worker, bounds.WORKER_CHARS_MAX)
        await self._pool.run(
            lambda connection: settle(connection, settlements, worker, self._now())
        )

    async def turn(
        self,
        settlements: Iterable[Settlement],
        queue: str,
        *,
        jobs_max: int,
        worker: str,
        lease_seconds: float = bounds.LEASE_SECONDS_DEFAULT,
        kinds: Iterable[str] | None = None,
        suspects_max: int = 1,
    ) -> list[Claim]:
        """Settle, and claim what comes next, in one transaction."""
        settlements = listed("settlements", settlements)
        wish = make_wish(
            queue,
            jobs_max=jobs_max,
            worker=worker,
            lease_seconds=lease_seconds,
            kinds=kinds,
            suspects_max=suspects_max,
        )
        if (arguments := settled(settlements, worker, self._now())) is None:
            return await self._claim(wish)
        claims = await self._pool.run(lambda connection: turn(connection, arguments, wish))
        if not claims:
            with contextlib.suppress(StoreError):  # what is settled is settled
                claims = await self._claim(wish)
        return claims

    async def _claim(self, wish: Wish) -> list[Claim]:
        return await self._pool.run(lambda connection: claim(connection, wish, self._now()))

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

    async def reclaim(self, *, leases_max: int = 100, gone: Iterable[str] = ()) -> Reclaimed:
        """Take back leases that ran out; admit blocked jobs; mend what the slow sweep finds."""
        check_whole("leases_max", leases_max, 1, bounds.CLAIM_JOBS_MAX)
        gone = check_processes(gone)

        async def verb(connection: Connection) -> Reclaimed:
            row = await connection.fetchrow(query("reclaim"), leases_max, gone, self._now())
            await connection.execute(query("sweep"), self._now())
            return Reclaimed(**row)

        return await self._pool.run(verb)

    async def wait(self, queues: Iterable[str], *, timeout_seconds: float) -> bool:
        """Sleep until work may have arrived."""
        queues = listed("queues", queues)
        check_queues(queues)
        check_number("timeout_seconds", timeout_seconds, 0.0, bounds.DELAY_SECONDS_MAX)
        with self._listener.hearing(queues) as woken:
            seconds = await self._seconds_to_due(queues) if self._clock is None else None
            if seconds is not None and seconds <= timeout_seconds:
                await self._listener.wait(woken, timeout_seconds=seconds)
                return True
            return await self._listener.wait(woken, timeout_seconds=timeout_seconds)

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

    async def beat(self, worker: WorkerView) -> None:
        """Say that a worker lives."""
        check_worker(worker)
        await self._pool.run(lambda connection: status.beat(connection, worker, self._now()))

    async def leave(self, worker: str) -> None:
        """Say that a worker has ended, so that it is listed no more."""
        check_name("worker", worker, bounds.WORKER_CHARS_MAX)
        await self._pool.run(lambda connection: connection.execute(query("leave"), worker))

    # Operators

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        """Set how a queue behaves."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_settings(settings)
        await self._pool.run(lambda connection: lanes.configure(connection, queue, settings))

    async def pause(self, queue: str, *, key: str | None = None, by: str) -> None:
        """Hold a queue, or one keyed lane of it."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_filter(key=key)
        check_by(by)
        await self._pool.run(
            lambda connection: lanes.pause(connection, queue, key, by, self._now())
        )

    async def resume(self, queue: str, *, key: str | None = None) -> None:
        """Let a paused queue, or one keyed lane of it, go on."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_filter(key=key)
        await self._pool.run(lambda connection: lanes.resume(connection, queue, key, self._now()))

    async def open_gate(self, queue: str, round: int) -> int:
        """Open the gate as far as a round."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_whole("round", round, 0, bounds.ROUND_MAX)
        return await self._pool.run(lambda connection: lanes.open_gate(connection, queue, round))

    async def advance_gate(self, queue: str) -> Gate:
        """Open the next round if nothing of the open ones is unfinished."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        return await self._pool.run(lambda connection: lanes.advance_gate(connection, queue))

    async def retry_lane(self, queue: str, key: str) -> UUID:
        """Run a halted lane's head again."""
        check_lane(queue, key)
        return await self._decide(queue, key, "retry", "")

    async def skip_lane(self, queue: str, key: str) -> UUID:
        """Leave a halted lane's head among the dead letters and go on."""
        check_lane(queue, key)
        return await self._decide(queue, key, "skip", "")

    async def drop_lane(self, queue: str, key: str, *, by: str) -> UUID:
        """Cancel a halted lane's head for good and go on."""
        check_lane(queue, key)
        check_by(by)
        return await self._decide(queue, key, "drop", by)

    async def _decide(self, queue: str, key: str, decision: str, by: str) -> UUID:
        return await self._pool.run(
            lambda connection: lanes.decide_lane(connection, queue, key, decision, by, self._now())
        )

    async def cancel(self, job: UUID, *, by: str) -> JobState:
        """Cancel a job that is not running; return the state it has now."""
        check_id("job", job)
        check_by(by)
        state = await self._pool.run(
            lambda connection: connection.fetchval(query("cancel"), job, by, self._now())
        )
        if state is None:
            raise UnknownJob(job)
        return JobState(state)

    async def dead_retry(self, jobs: Iterable[UUID]) -> list[UUID]:
        """Put dead letters back with fresh attempts; return those that were dead until now."""
        jobs = listed("jobs", jobs)
        check_ids("job", jobs)
        jobs = sorted(set(jobs))
        rows = await self._pool.run(
            lambda connection: connection.fetch(query("dead_retry"), jobs, self._now())
        )
        return sorted(row["id"] for row in rows)

    async def dead_drop(self, jobs: Iterable[UUID], *, by: str) -> list[UUID]:
        """Cancel dead letters for good; return those that were dead until now."""
        jobs = listed("jobs", jobs)
        check_ids("job", jobs)
        jobs = sorted(set(jobs))
        check_by(by)
        rows = await self._pool.run(
            lambda connection: connection.fetch(query("dead_drop"), jobs, by, self._now())
        )
        return sorted(row["id"] for row in rows)

    # Readers

    async def dead_letters(
        self,
        *,
        queue: str | None = None,
        kind: str | None = None,
        key: str | None = None,
        cursor: str | None = None,
        rows_max: int = 100,
    ) -> Page[DeadLetter]:
        """List dead letters, latest death first."""
        check_filter(queue=queue, kind=kind, key=key)
        return await self._pool.run(
            lambda connection: reads.dead_letters(
                connection, queue=queue, kind=kind, key=key, cursor=cursor, rows_max=rows_max
            )
        )

    async def job(self, job: UUID) -> JobView:
        """Return a job with its state and place in line."""
        check_id("job", job)
        now = await self.now()
        return await self._pool.run(lambda connection: reads.job(connection, job, now))

    async def jobs(
        self,
        *,
        state: JobState | None = None,
        finished: bool = True,
        queue: str | None = None,
        kind: str | None = None,
        key: str | None = None,
        cursor: str | None = None,
        rows_max: int = 100,
    ) -> Page[JobView]:
        """List jobs by id, newest first; without a ``state``, perhaps only those not finished."""
        state = check_state(state)
        check_filter(queue=queue, kind=kind, key=key)
        now = await self.now()
        return await self._pool.run(
            lambda connection: reads.jobs(
                connection,
                now=now,
                state=state,
                finished=finished,
                queue=queue,
                kind=kind,
                key=key,
                cursor=cursor,
                rows_max=rows_max,
            )
        )

    async def jobs_ending(self, ending: str) -> list[UUID]:
        """Return the jobs, ten at most, whose id ends with these hexadecimal digits."""
        return await self._pool.run(
            lambda connection: reads.jobs_ending(connection, ending.lower())
        )

    async def result(self, job: UUID) -> str | None:
        """Return the JSON text a job's handler returned, while it is kept, or ``ResultLost``."""
        check_id("job", job)
        now = await self.now()
        return await self._pool.run(lambda connection: reads.result(connection, job, now))

    async def explain(self, job: UUID) -> str:
        """Say why a job is where it is."""
        check_id("job", job)
        now = await self.now()
        return await self._pool.run(lambda connection: reads.explain(connection, job, now))

    async def lanes(
        self, queue: str, *, key: str | None = None, cursor: str | None = None, rows_max: int = 100
    ) -> Page[LaneView]:
        """List a queue's lanes, or the one lane of a key."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_filter(key=key)
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
        return await self._pool.run(status.workers)

    async def stats(self, queue: str, *, since: datetime) -> list[Stat]:
        """Return what was settled per kind and minute since a time."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_time("since", since)
        return await self._pool.run(lambda connection: status.stats(connection, queue, since))

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

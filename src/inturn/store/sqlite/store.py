"""The SQLite store: every verb of the contract, each a function of the same name."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

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
from inturn.model.clock import Clock, SystemClock
from inturn.model.errors import StoreError
from inturn.model.job import DeadLetter, JobState, JobView, NewJob, Ticket
from inturn.model.lane import Gate, LaneView, QueueSettings, QueueStatus
from inturn.model.lease import Claim, Lease, Reclaimed, Wish
from inturn.model.worker import Stat, WorkerView
from inturn.policy.settlement import Settlement
from inturn.store.paging import check_rows_max
from inturn.store.protocol import Page, Pruned, Transaction
from inturn.store.sqlite import (
    cancel,
    check,
    claim,
    dead,
    enqueue,
    explain,
    gates,
    job_list,
    job_view,
    lane_view,
    lanes,
    migrate,
    progress,
    prune,
    queues,
    reclaim,
    settle,
    stats,
    workers,
)
from inturn.store.sqlite.connection import Synchronous, open_reader
from inturn.store.sqlite.faults import not_open
from inturn.store.sqlite.file import MEMORY
from inturn.store.sqlite.leases import extend
from inturn.store.sqlite.opening import migrate_closed, open_checked, opened_aside
from inturn.store.sqlite.reader import READERS, Readers
from inturn.store.sqlite.times import Micros, micros
from inturn.store.sqlite.transaction import SqliteTransaction
from inturn.store.sqlite.waiters import Waiters
from inturn.store.sqlite.writer import Result, Work, Writer


class SqliteStore:
    """Jobs, lanes and leases in one SQLite file, or in memory.

    ``synchronous="full"`` brings every commit to the disk before it is acknowledged; "normal" may
    lose the last moments in a power cut, and nothing when only the process dies.
    ``busy_seconds`` is how long to wait for another process that writes.
    """

    def __init__(
        self,
        path: str,
        *,
        clock: Clock | None = None,
        synchronous: Synchronous = "full",
        busy_seconds: float = 10.0,
    ) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._synchronous = synchronous
        self._busy_seconds = busy_seconds
        self._checked: NewJob | None = None  # one that could be stored
        self._writer: Writer | None = None
        self._readers: Readers | None = None
        self._waiters: Waiters | None = None

    # Life

    @property
    def is_private(self) -> bool:
        """Whether it is in the memory of this process, where no other can see it."""
        return self.path == MEMORY

    is_bound_to_loop = False  # its threads serve any
    trouble = None  # a file is there; whoever keeps it locked does not say so

    async def open(self) -> None:
        """Connect. A new or empty file is migrated; one that needs migrating is refused."""
        if self._writer is not None:
            return
        connection = await opened_aside(self._open_checked)
        reading = partial(open_reader, self.path, busy_seconds=self._busy_seconds)
        self._waiters = Waiters(self._clock, None if self.is_private else reading)
        self._writer = Writer(connection, self.path, self._clock, self._waiters.look)
        self._waiters.stir = self._writer.stir
        if self.is_private:
            return
        connections: list[sqlite3.Connection] = []
        try:
            for _ in range(READERS):
                connections.append(await opened_aside(reading))
        except BaseException:
            for connection in connections:
                connection.close()
            await self.close()
            raise
        self._readers = Readers(connections, self.path, self._clock)

    async def close(self) -> None:
        """Finish what is under way and disconnect. May be called twice."""
        parts = [part for part in (self._waiters, self._readers, self._writer) if part is not None]
        self._waiters = self._readers = self._writer = None

        def close_all() -> None:
            for part in parts:
                part.close()

        # In one go, and for sure: whoever is cancelled here does not come back.
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, close_all))

    async def migrate(self) -> int:
        """Bring the tables to this version, under a lock; return the version. Safe to repeat."""
        if self._writer is not None:
            return await self._writer.run(migrate.migrate)
        return await asyncio.to_thread(self._migrate_closed)

    async def check(self) -> list[str]:
        """Verify every invariant of the tables; return a sentence for each that does not hold."""
        return await self._read(check.check)

    async def prune(self) -> Pruned:
        """Take away finished history past its time, idle lanes, and what has expired.

        In several transactions, so that others who write have their turn in between.
        """
        taken: Counter[str] = Counter()
        for step in prune.STEPS:
            after: int | None = 0
            while after is not None:
                found, after = await self._write(partial(step, after=after))
                taken += found
        return Pruned(**taken)

    # Producers

    async def enqueue(self, jobs: Iterable[NewJob], *, connection: Any = None) -> list[Ticket]:
        """Accept jobs, all or none, in the given order within each key."""
        if connection is not None:
            raise StoreError(
                "a SQLite store accepts jobs on its own connection only. Use transaction() to "
                "write rows of your own together with jobs."
            )
        jobs = listed("jobs", jobs)
        check_jobs(jobs, before=self._checked)
        if not jobs:
            return []
        self._checked = jobs[-1]
        return await self._write(partial(enqueue.enqueue, jobs=jobs))

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
        """Lease up to ``jobs_max`` jobs: lowest open round first, then priority, then age."""
        wish = make_wish(
            queue,
            jobs_max=jobs_max,
            worker=worker,
            lease_seconds=lease_seconds,
            kinds=kinds,
            suspects_max=suspects_max,
        )
        return self._seen(wish, *await self._write(partial(claim.claim, wish=wish)))

    async def extend(
        self, leases: Iterable[Lease], *, lease_seconds: float = bounds.LEASE_SECONDS_DEFAULT
    ) -> list[Lease]:
        """Prolong leases from now on; return those that are lost."""
        leases = listed("leases", leases)
        for lease in leases:
            check_lease(lease)
        check_number("lease_seconds", lease_seconds, 0.001, bounds.LEASE_SECONDS_MAX)
        work = partial(extend, leases=leases, lease_seconds=lease_seconds)
        return await self._write(work) if leases else []

    async def progress(self, lease: Lease, job: UUID, *, fraction: float, note: str = "") -> None:
        """Say how far a leased job is: shown by ``job`` while it runs under this lease."""
        check_report(lease, job, fraction, note)
        said = partial(progress.progress, lease=lease, job=job, fraction=fraction, note=note)
        await self._write(said)

    async def settle(self, settlements: Iterable[Settlement], *, worker: str) -> None:
        """Say what became of leased jobs: done, retry, bury or release, in any mix."""
        settlements = listed("settlements", settlements)
        settle.check_settlements(settlements, worker)
        if settlements:
            await self._write(partial(settle.settle, settlements=settlements, worker=worker))

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
        """Settle, then claim, in one transaction."""
        settlements = listed("settlements", settlements)
        wish = make_wish(
            queue,
            jobs_max=jobs_max,
            worker=worker,
            lease_seconds=lease_seconds,
            kinds=kinds,
            suspects_max=suspects_max,
        )
        settle.check_settlements(settlements, worker)

        def work(connection: sqlite3.Connection, now: Micros) -> tuple[list[Claim], int]:
            settle.settle(connection, now, settlements, worker=worker)
            return claim.claim(connection, now, wish)

        return self._seen(wish, *await self._write(work))

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open one transaction for settle, enqueue and the caller's own statements."""
        return SqliteTransaction(self._open_writer, self.path)

    async def reclaim(self, *, leases_max: int = 100, gone: Iterable[str] = ()) -> Reclaimed:
        """Take back leases that ran out. Their unsettled jobs become suspects, leased alone."""
        check_whole("leases_max", leases_max, 1, bounds.CLAIM_JOBS_MAX)
        work = partial(reclaim.reclaim, leases_max=leases_max, gone=check_processes(gone))
        return await self._write(work)

    async def wait(self, queues: Iterable[str], *, timeout_seconds: float) -> bool:
        """Sleep until work may have arrived in one of the queues; say whether it was woken."""
        queues = listed("queues", queues)
        check_queues(queues)
        check_number("timeout_seconds", timeout_seconds, 0.0, bounds.DELAY_SECONDS_MAX)
        if self._waiters is None:
            raise not_open(self.path)
        return await self._waiters.wait(queues, timeout_seconds=timeout_seconds)

    async def beat(self, worker: WorkerView) -> None:
        """Say that a worker lives, what it runs, and which queues and kinds it takes."""
        check_worker(worker)
        await self._write(partial(workers.beat, worker=worker))

    async def leave(self, worker: str) -> None:
        """Say that a worker has ended, so that it is listed no more."""
        check_name("worker", worker, bounds.WORKER_CHARS_MAX)
        await self._write(partial(workers.leave, id=worker))

    # Operators: queues and lanes

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        """Set how a queue behaves, making it if need be."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_settings(settings)
        await self._write(partial(queues.configure, queue=queue, settings=settings))

    async def pause(self, queue: str, *, key: str | None = None, by: str) -> None:
        """Hold a queue, or one keyed lane of it. What runs goes on running."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_filter(key=key)
        check_by(by)
        if key is None:
            await self._write(partial(queues.pause_queue, queue=queue, by=by))
        else:
            await self._write(partial(lanes.pause_lane, queue=queue, key=key, by=by))

    async def resume(self, queue: str, *, key: str | None = None) -> None:
        """Let a paused queue, or one keyed lane of it, go on."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_filter(key=key)
        if key is None:
            await self._write(partial(queues.resume_queue, queue=queue))
        else:
            await self._write(partial(lanes.resume_lane, queue=queue, key=key))

    async def open_gate(self, queue: str, round: int) -> int:
        """Open the gate as far as ``round`` (it never closes); return the highest open round."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_whole("round", round, 0, bounds.ROUND_MAX)
        return await self._write(partial(gates.open_gate, queue=queue, round=round))

    async def advance_gate(self, queue: str) -> Gate:
        """Open the next round that has jobs if nothing of the open rounds is unfinished."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        return await self._write(partial(gates.advance_gate, queue=queue))

    async def retry_lane(self, queue: str, key: str) -> UUID:
        """Run a halted lane's head again, with fresh attempts, in its place; return its id."""
        check_lane(queue, key)
        return await self._write(partial(lanes.retry_lane, queue=queue, key=key))

    async def skip_lane(self, queue: str, key: str) -> UUID:
        """Leave a halted lane's head among the dead letters and go on with the next."""
        check_lane(queue, key)
        return await self._write(partial(lanes.skip_lane, queue=queue, key=key))

    async def drop_lane(self, queue: str, key: str, *, by: str) -> UUID:
        """Cancel a halted lane's head for good and go on with the next."""
        check_lane(queue, key)
        check_by(by)
        return await self._write(partial(lanes.drop_lane, queue=queue, key=key, by=by))

    # Operators: jobs and dead letters

    async def cancel(self, job: UUID, *, by: str) -> JobState:
        """Cancel a job that is not running; return the state it has now."""
        check_id("job", job)
        check_by(by)
        return await self._write(partial(cancel.cancel, job=job, by=by))

    async def dead_retry(self, jobs: Iterable[UUID]) -> list[UUID]:
        """Put dead letters back with fresh attempts; return those that were dead until now."""
        jobs = listed("jobs", jobs)
        check_ids("job", jobs)
        return await self._write(partial(dead.dead_retry, jobs=jobs))

    async def dead_drop(self, jobs: Iterable[UUID], *, by: str) -> list[UUID]:
        """Cancel dead letters for good; return those that were dead until now."""
        jobs = listed("jobs", jobs)
        check_ids("job", jobs)
        check_by(by)
        return await self._write(partial(dead.dead_drop, jobs=jobs, by=by))

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
        check_rows_max(rows_max)
        listed = partial(dead.dead_letters, queue=queue, kind=kind, key=key)
        return await self._read(partial(listed, cursor=cursor, rows_max=rows_max))

    # Readers

    async def job(self, job: UUID) -> JobView:
        """Return a job with its state and place in line. Raises ``UnknownJob``."""
        check_id("job", job)
        return await self._read(partial(job_view.job, id=job))

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
        check_rows_max(rows_max)
        listed = partial(
            job_list.jobs, state=state, finished=finished, queue=queue, kind=kind, key=key
        )
        return await self._read(partial(listed, cursor=cursor, rows_max=rows_max))

    async def jobs_ending(self, ending: str) -> list[UUID]:
        """Return the jobs, ten at most, whose id ends with these hexadecimal digits."""
        return await self._read(partial(job_list.jobs_ending, ending=ending.lower()))

    async def result(self, job: UUID) -> str | None:
        """Return the JSON text a job's handler returned, while it is kept.

        Raises ``ResultLost`` if it returned what could not be.
        """
        check_id("job", job)
        return await self._read(partial(job_view.result, id=job))

    async def explain(self, job: UUID) -> str:
        """Say in one honest sentence why a job is where it is. Raises ``UnknownJob``."""
        check_id("job", job)
        return await self._read(partial(explain.explain, job=job))

    async def lanes(
        self, queue: str, *, key: str | None = None, cursor: str | None = None, rows_max: int = 100
    ) -> Page[LaneView]:
        """List a queue's lanes, or the one lane of a key."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_filter(key=key)
        check_rows_max(rows_max)
        listed = partial(lane_view.lanes, queue=queue, key=key)
        return await self._read(partial(listed, cursor=cursor, rows_max=rows_max))

    async def queues(self) -> list[QueueStatus]:
        """Return every queue's settings, depth and oldest age, in milliseconds at any backlog."""
        return await self._read(queues.queues)

    async def workers(self) -> list[WorkerView]:
        """Return the workers that were heard of lately, the latest first."""
        return await self._read(workers.workers)

    async def stats(self, queue: str, *, since: datetime) -> list[Stat]:
        """Return what was settled per kind and minute since a time."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_time("since", since)
        return await self._read(partial(stats.stats, queue=queue, since=micros(since)))

    async def now(self) -> datetime:
        """Return the store's time."""
        return self._clock.now()

    def _seen(self, wish: Wish, claims: list[Claim], woken: int) -> list[Claim]:
        """Remember, for a later wait, that a claim took all there was."""
        if self._waiters is not None and sum(len(one.jobs) for one in claims) < wish.jobs_max:
            self._waiters.left_empty(wish.queue, woken)
        return claims

    async def _write(self, work: Work[Result]) -> Result:
        return await self._open_writer().run(work)

    async def _read(self, work: Work[Result]) -> Result:
        if self._readers is not None:
            return await self._readers.run(work)
        writer = self._open_writer()
        turn = writer.owned_turn()  # in memory a transaction's own task reads through it
        return await (writer if turn is None else turn).run(work)

    def _open_writer(self) -> Writer:
        if self._writer is None:
            raise not_open(self.path)
        return self._writer

    def _open_checked(self) -> sqlite3.Connection:
        return open_checked(
            self.path, self._clock, synchronous=self._synchronous, busy_seconds=self._busy_seconds
        )

    def _migrate_closed(self) -> int:
        return migrate_closed(
            self.path, self._clock, synchronous=self._synchronous, busy_seconds=self._busy_seconds
        )

"""The SQLite store: every verb of the contract, each a function of the same name."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from inturn.model.admissible import listed
from inturn.model.clock import Clock, SystemClock
from inturn.model.errors import StoreError
from inturn.model.job import DeadLetter, JobState, JobView, NewJob, Ticket
from inturn.model.lane import Gate, LaneView, QueueSettings, QueueStatus
from inturn.model.lease import Claim, Lease, Pruned, Reclaimed, Wish
from inturn.model.worker import Stat, WorkerView
from inturn.policy.settling import Settling
from inturn.store.change import Checked
from inturn.store.engine import Decision
from inturn.store.paging import Asked, Page
from inturn.store.queries import Query, Row, slices
from inturn.store.schema import Schema
from inturn.store.sqlite import (
    cancel,
    check,
    claim,
    dead,
    enqueue,
    jobs,
    lanes,
    leases,
    migrate,
    own_queries,
    prune,
    queues,
    reclaim,
    settle,
    workers,
)
from inturn.store.sqlite.connection import (
    Synchronous,
    migrate_closed,
    open_checked,
    open_reader,
)
from inturn.store.sqlite.faults import not_open
from inturn.store.sqlite.file import MEMORY
from inturn.store.sqlite.leases import extend
from inturn.store.sqlite.reader import READERS, Readers
from inturn.store.sqlite.rows import Micros, micros
from inturn.store.sqlite.transaction import SqliteTransaction, apply
from inturn.store.sqlite.waiters import Waiters, woken
from inturn.store.sqlite.writer import Result, Work, Writer
from inturn.store.store import Store
from inturn.store.transaction import Transaction


class SqliteStore(Store):
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
        options: dict[str, Any] = {"synchronous": synchronous, "busy_seconds": busy_seconds}
        self._open_writing = partial(open_checked, path, self._clock, **options)
        self._open_reading = partial(open_reader, path, busy_seconds=busy_seconds)
        self._migrate_closed = partial(migrate_closed, path, self._clock, **options)
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
        connection, *readers = await _on_own_thread(self._open_all)
        reading = None if self.is_private else self._open_reading
        self._waiters = Waiters(self._clock, reading)
        self._writer = Writer(connection, self.path, self._clock, self._waiters.look)
        self._waiters.stir = self._writer.stir
        if readers:
            self._readers = Readers(readers, self.path, self._clock)

    async def close(self) -> None:
        """Finish what is under way and disconnect. May be called twice."""
        parts = [part for part in (self._waiters, self._readers, self._writer) if part is not None]
        self._waiters = self._readers = self._writer = None
        self._ensured = frozenset()

        def close_all() -> None:
            for part in parts:
                part.close()

        # In one go, and for sure: whoever is cancelled here does not come back.
        await _on_own_thread(close_all)

    async def migrate(self, schemas: Iterable[Schema] = ()) -> int:
        """Make the engine's tables and those of applications, or bring them to their versions."""
        schemas = listed("schemas", schemas)
        if self._writer is not None:
            return await self._writer.run(partial(migrate.migrate, schemas=schemas))
        return await _on_own_thread(partial(self._migrate_closed, schemas=schemas))

    async def versions(self) -> dict[str, int]:
        """Return the version of each owner's tables."""
        found = await self._read(migrate.found_versions)
        return {owner: one.number for owner, one in found.items()}

    async def _ensure(self, schema: Schema) -> None:
        if not await self._read(partial(migrate.is_there, schema=schema, path=self.path)):
            await self._write(partial(migrate.make, schema=schema))

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

    async def _enqueue(self, jobs: list[NewJob], connection: Any) -> list[Ticket]:
        if connection is not None:
            raise _its_own_only()
        return await self._write(partial(enqueue.enqueue, jobs=jobs))

    def _enqueue_sync(self, jobs: list[NewJob], connection: Any) -> list[Ticket]:
        raise _its_own_only()

    async def make_queues(self, queues: Iterable[str]) -> None:
        """Refuse, as ``enqueue_sync``, for which this is."""
        raise _its_own_only()

    # Workers

    async def _claim(self, wish: Wish) -> list[Claim]:
        return self._seen(wish, *await self._write(partial(claim.claim, wish=wish)))

    async def _extend(self, leases: list[Lease], lease_seconds: float) -> list[Lease]:
        return await self._write(partial(extend, leases=leases, lease_seconds=lease_seconds))

    async def _progress(self, lease: Lease, job: UUID, fraction: float, note: str) -> None:
        said = partial(leases.progress, lease=lease, job=job, fraction=fraction, note=note)
        await self._write(said)

    async def _settle(self, settling: Settling) -> None:
        await self._write(partial(settle.settle, settling=settling))

    async def _turn(self, settling: Settling, wish: Wish) -> list[Claim]:
        def work(connection: sqlite3.Connection, now: Micros) -> tuple[list[Claim], int]:
            row = queues.find_queue(connection, wish.queue)
            before = woken(connection, wish.queue) if row is not None and row.is_limited else None
            settle.settle(connection, now, settling)
            return claim.claim(connection, now, wish, row=row, woken_before=before)

        return self._seen(wish, *await self._write(work))

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open one transaction for settle, enqueue and the caller's own statements."""
        return SqliteTransaction(self._open_writer, self.path)

    async def _reclaim(self, leases_max: int, gone: list[str]) -> Reclaimed:
        return await self._write(partial(reclaim.reclaim, leases_max=leases_max, gone=gone))

    async def _wait(self, queues: list[str], timeout_seconds: float) -> bool:
        if self._waiters is None:
            raise not_open(self.path)
        return await self._waiters.wait(queues, timeout_seconds=timeout_seconds)

    async def _ended(self, jobs: list[UUID]) -> dict[UUID, JobState | None]:
        return await self._read(partial(enqueue.ended, jobs=jobs))

    async def _wait_ended(self, queues: list[str], seen: int, timeout_seconds: float) -> int:
        if self._waiters is None:
            raise not_open(self.path)
        return await self._waiters.wait_commit(seen, timeout_seconds=timeout_seconds)

    async def _beat(self, worker: WorkerView) -> None:
        await self._write(partial(workers.beat, worker=worker))

    async def _hold(self, duty: str, worker: str, seconds: float) -> bool:
        work = partial(workers.hold, duty=duty, worker=worker, seconds=seconds)
        return await self._write(work)

    async def _leave(self, worker: str) -> None:
        await self._write(partial(workers.leave, id=worker))

    # Operators

    async def _configure(self, queue: str, changes: Mapping[str, Any]) -> QueueSettings:
        return await self._write(partial(queues.configure, queue=queue, changes=changes))

    async def settings(self) -> dict[str, QueueSettings]:
        """Return how every queue behaves."""
        return await self._read(queues.all_settings)

    async def _declarations(self) -> dict[str, dict[str, Any]]:
        return await self._read(queues.declarations)

    async def _declare(self, declared: Mapping[str, Mapping[str, Any]]) -> None:
        await self._write(partial(queues.declare, declared=declared))

    async def _drop_queue(self, queue: str) -> bool:
        return await self._write(partial(queues.drop_queue, queue=queue))

    async def _pause(self, queue: str, key: str | None, by: str) -> None:
        if key is None:
            await self._write(partial(queues.pause_queue, queue=queue, by=by))
        else:
            await self._write(partial(lanes.pause_lane, queue=queue, key=key, by=by))

    async def _resume(self, queue: str, key: str | None) -> None:
        if key is None:
            await self._write(partial(queues.resume_queue, queue=queue))
        else:
            await self._write(partial(lanes.resume_lane, queue=queue, key=key))

    async def _open_gate(self, queue: str, round: int) -> int:
        return await self._write(partial(queues.open_gate, queue=queue, round=round))

    async def _advance_gate(self, queue: str) -> Gate:
        return await self._write(partial(queues.advance_gate, queue=queue))

    async def _decide_lane(self, queue: str, key: str, decision: Decision, by: str = "") -> UUID:
        decide = partial(lanes.decide_lane, queue=queue, key=key, decision=decision, by=by)
        return await self._write(decide)

    async def _cancel(self, job: UUID, by: str) -> JobState:
        return await self._write(partial(cancel.cancel, job=job, by=by))

    async def _dead_retry(self, jobs: list[UUID]) -> list[UUID]:
        return await self._write(partial(dead.dead_retry, jobs=jobs))

    async def _dead_drop(self, jobs: list[UUID], by: str) -> list[UUID]:
        return await self._write(partial(dead.dead_drop, jobs=jobs, by=by))

    # Readers

    async def _dead_letters(self, asked: Asked) -> Page[DeadLetter]:
        return await self._read(partial(dead.dead_letters, asked=asked))

    async def _job(self, job: UUID) -> JobView:
        return await self._read(partial(jobs.job, id=job))

    async def _jobs(self, states: Sequence[JobState | None], asked: Asked) -> Page[JobView]:
        return await self._read(partial(jobs.jobs, states=states, asked=asked))

    async def _jobs_ending(self, ending: str) -> list[UUID]:
        return await self._read(partial(jobs.jobs_ending, ending=ending))

    async def _result(self, job: UUID) -> str | None:
        return await self._read(partial(jobs.result, id=job))

    async def _explain(self, job: UUID) -> str:
        return await self._read(partial(jobs.explain, id=job))

    async def _lanes(
        self, queue: str, key: str | None, cursor: str | None, rows_max: int
    ) -> Page[LaneView]:
        chosen = partial(lanes.lanes, queue=queue, key=key)
        return await self._read(partial(chosen, cursor=cursor, rows_max=rows_max))

    async def queues(self) -> list[QueueStatus]:
        """Return every queue's settings, depth and oldest age, from one row a queue."""
        return await self._read(queues.queues)

    async def workers(self) -> list[WorkerView]:
        """Return the workers that were heard of lately, the latest first."""
        return await self._read(workers.workers)

    async def _stats(self, queue: str, since: datetime) -> list[Stat]:
        return await self._read(partial(workers.stats, queue=queue, since=micros(since)))

    async def _apply(self, change: Checked) -> list[Ticket]:
        return await self._write(partial(apply, change=change))

    def _slices(self, rows: Iterable[Any]) -> Iterator[str]:
        return slices(rows, micros)

    async def _run(self, query: Query[Row], given: Mapping[str, Any]) -> list[Row]:
        return await self._read(partial(own_queries.read, query=query, given=given))

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

    def _open_all(self) -> list[sqlite3.Connection]:
        """Open the connection that writes, and, of a file, those that read."""
        opened = [self._open_writing()]
        try:
            for _ in range(0 if self.is_private else READERS):
                opened.append(self._open_reading())
        except BaseException:
            for connection in opened:
                connection.close()
            raise
        return opened


async def _on_own_thread(work: Callable[[], Result]) -> Result:
    """Do what blocks on a thread of its own, to its end: those of the loop's pool may be taken for
    ever, by a handler's calls that never return. It does not keep the process from ending.
    """
    ended: Future[Result] = Future()
    ended.set_running_or_notify_cancel()

    def run() -> None:
        try:
            ended.set_result(work())
        except BaseException as error:
            ended.set_exception(error)

    threading.Thread(target=run, name="inturn file", daemon=True).start()
    return await asyncio.wrap_future(ended)


def _its_own_only() -> StoreError:
    return StoreError(
        "a SQLite store accepts jobs on its own connection only. Use transaction() to write rows "
        "of your own together with jobs."
    )

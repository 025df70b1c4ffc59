"""A store that asks another: for stores that add something to a few of its verbs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any
from uuid import UUID

from inturn.model import bounds
from inturn.model.job import DeadLetter, JobState, JobView, NewJob, Ticket
from inturn.model.lane import Gate, LaneView, QueueSettings, QueueStatus
from inturn.model.lease import Claim, Lease, Reclaimed
from inturn.model.worker import Stat, WorkerView
from inturn.policy.settlement import Settlement
from inturn.store.protocol import Page, Pruned, Store, Transaction


class StoreDelegate:
    """Does every verb as the store it is made with does."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # Life

    @property
    def is_private(self) -> bool:
        """Whether it is in the memory of this process, where no other can see it."""
        return self._store.is_private

    @property
    def is_bound_to_loop(self) -> bool:
        """Whether it dies with the event loop on which it was opened."""
        return self._store.is_bound_to_loop

    @property
    def trouble(self) -> str | None:
        """What keeps calls from their answers at this moment, while they are tried again."""
        return self._store.trouble

    async def open(self) -> None:
        """Connect. Refuses a store without tables (``SchemaMissing``) or of a newer version."""
        await self._store.open()

    async def close(self) -> None:
        """Finish what is under way and disconnect. May be called twice."""
        await self._store.close()

    async def migrate(self) -> int:
        """Bring the tables to this version, under a lock; return the version. Safe to repeat."""
        return await self._store.migrate()

    async def check(self) -> list[str]:
        """Verify every invariant of the tables; return a sentence for each that does not hold."""
        return await self._store.check()

    async def prune(self) -> Pruned:
        """Take away finished history past its time, idle lanes, and what has expired."""
        return await self._store.prune()

    # Producers

    async def enqueue(self, jobs: Iterable[NewJob], *, connection: Any = None) -> list[Ticket]:
        """Accept jobs, all or none, in the given order within each key."""
        return await self._store.enqueue(jobs, connection=connection)

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
        return await self._store.claim(
            queue,
            jobs_max=jobs_max,
            worker=worker,
            lease_seconds=lease_seconds,
            kinds=kinds,
            suspects_max=suspects_max,
        )

    async def extend(
        self, leases: Iterable[Lease], *, lease_seconds: float = bounds.LEASE_SECONDS_DEFAULT
    ) -> list[Lease]:
        """Prolong leases from now on; return those that are lost."""
        return await self._store.extend(leases, lease_seconds=lease_seconds)

    async def progress(self, lease: Lease, job: UUID, *, fraction: float, note: str = "") -> None:
        """Say how far a leased job is: shown by ``job`` while it runs under this lease."""
        await self._store.progress(lease, job, fraction=fraction, note=note)

    async def settle(self, settlements: Iterable[Settlement], *, worker: str) -> None:
        """Say what became of leased jobs: done, retry, bury or release, in any mix."""
        await self._store.settle(settlements, worker=worker)

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
        """Settle, then claim: what a busy worker does, in one transaction and one round trip."""
        return await self._store.turn(
            settlements,
            queue,
            jobs_max=jobs_max,
            worker=worker,
            lease_seconds=lease_seconds,
            kinds=kinds,
            suspects_max=suspects_max,
        )

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open one transaction for settle, enqueue and the caller's own statements."""
        return self._store.transaction()

    async def reclaim(self, *, leases_max: int = 100, gone: Iterable[str] = ()) -> Reclaimed:
        """Take back leases that ran out. Their unsettled jobs become suspects, leased alone."""
        return await self._store.reclaim(leases_max=leases_max, gone=gone)

    async def wait(self, queues: Iterable[str], *, timeout_seconds: float) -> bool:
        """Sleep until work may have arrived in one of the queues; say whether it was woken."""
        return await self._store.wait(queues, timeout_seconds=timeout_seconds)

    async def beat(self, worker: WorkerView) -> None:
        """Say that a worker lives, what it runs, and which queues and kinds it takes."""
        await self._store.beat(worker)

    async def leave(self, worker: str) -> None:
        """Say that a worker has ended, so that it is listed no more."""
        await self._store.leave(worker)

    # Operators: queues and lanes

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        """Set how a queue behaves, making it if need be."""
        await self._store.configure(queue, settings)

    async def pause(self, queue: str, *, key: str | None = None, by: str) -> None:
        """Hold a queue, or one keyed lane of it. What runs goes on running."""
        await self._store.pause(queue, key=key, by=by)

    async def resume(self, queue: str, *, key: str | None = None) -> None:
        """Let a paused queue, or one keyed lane of it, go on."""
        await self._store.resume(queue, key=key)

    async def open_gate(self, queue: str, round: int) -> int:
        """Open the gate as far as ``round`` (it never closes); return the highest open round."""
        return await self._store.open_gate(queue, round)

    async def advance_gate(self, queue: str) -> Gate:
        """Open the next round that has jobs if nothing of the open rounds is unfinished."""
        return await self._store.advance_gate(queue)

    async def retry_lane(self, queue: str, key: str) -> UUID:
        """Run a halted lane's head again, with fresh attempts, in its place; return its id."""
        return await self._store.retry_lane(queue, key)

    async def skip_lane(self, queue: str, key: str) -> UUID:
        """Leave a halted lane's head among the dead letters and go on with the next."""
        return await self._store.skip_lane(queue, key)

    async def drop_lane(self, queue: str, key: str, *, by: str) -> UUID:
        """Cancel a halted lane's head for good and go on with the next."""
        return await self._store.drop_lane(queue, key, by=by)

    # Operators: jobs and dead letters

    async def cancel(self, job: UUID, *, by: str) -> JobState:
        """Cancel a job that is not running; return the state it has now."""
        return await self._store.cancel(job, by=by)

    async def dead_retry(self, jobs: Iterable[UUID]) -> list[UUID]:
        """Put dead letters back with fresh attempts; return those that were dead until now."""
        return await self._store.dead_retry(jobs)

    async def dead_drop(self, jobs: Iterable[UUID], *, by: str) -> list[UUID]:
        """Cancel dead letters for good; return those that were dead until now."""
        return await self._store.dead_drop(jobs, by=by)

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
        return await self._store.dead_letters(
            queue=queue, kind=kind, key=key, cursor=cursor, rows_max=rows_max
        )

    # Readers

    async def job(self, job: UUID) -> JobView:
        """Return a job with its state and place in line. Raises ``UnknownJob``."""
        return await self._store.job(job)

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
        """List jobs by id, newest first."""
        return await self._store.jobs(
            state=state,
            finished=finished,
            queue=queue,
            kind=kind,
            key=key,
            cursor=cursor,
            rows_max=rows_max,
        )

    async def jobs_ending(self, ending: str) -> list[UUID]:
        """Return the jobs, ten at most, whose id ends with these hexadecimal digits."""
        return await self._store.jobs_ending(ending)

    async def result(self, job: UUID) -> str | None:
        """Return the JSON text a job's handler returned, while it is kept."""
        return await self._store.result(job)

    async def explain(self, job: UUID) -> str:
        """Say in one honest sentence why a job is where it is. Raises ``UnknownJob``."""
        return await self._store.explain(job)

    async def lanes(
        self, queue: str, *, key: str | None = None, cursor: str | None = None, rows_max: int = 100
    ) -> Page[LaneView]:
        """List a queue's lanes, or the one lane of a key."""
        return await self._store.lanes(queue, key=key, cursor=cursor, rows_max=rows_max)

    async def queues(self) -> list[QueueStatus]:
        """Return every queue's settings, depth and oldest age."""
        return await self._store.queues()

    async def workers(self) -> list[WorkerView]:
        """Return the workers that were heard of lately, the latest first."""
        return await self._store.workers()

    async def stats(self, queue: str, *, since: datetime) -> list[Stat]:
        """Return what was settled per kind and minute since a time."""
        return await self._store.stats(queue, since=since)

    async def now(self) -> datetime:
        """Return the store's time."""
        return await self._store.now()

"""The store: every verb, what it promises and refuses. ``tests/contract`` is its definition.

Time comes from the clock a store is opened with; without one, PostgreSQL uses the database's clock
and SQLite the machine's. Every verb is one transaction: it happens whole or not at all. (``prune``
goes in several, each whole.)
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import UUID

import msgspec

from inturn.model import bounds
from inturn.model.admissible import (
    check_by,
    check_declared,
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
    check_whole,
    check_worker,
    listed,
    make_wish,
)
from inturn.model.errors import QueueInUse, UnknownQueue
from inturn.model.job import DeadLetter, JobState, NewJob, Ticket
from inturn.model.lane import Gate, QueueSettings
from inturn.model.lease import Claim, Lease, Pruned, Reclaimed
from inturn.model.worker import WorkerView
from inturn.policy.limits import changed_settings
from inturn.policy.settlement import Settlement
from inturn.policy.settling import check_settlements
from inturn.store.change import Change, checked
from inturn.store.paging import Asked, Page, check_rows_max
from inturn.store.queries import Query, Row
from inturn.store.reads import Reads
from inturn.store.schema import Schema
from inturn.store.transaction import Transaction


class Store(Reads):
    """Where jobs, lanes and leases live.

    Each verb checks what it is given and hands it to the engine, which is ``SqliteStore`` or
    ``PostgresStore``.
    """

    _checked: NewJob | None = None  # one that could be stored
    _ensured: frozenset[Schema] = frozenset()  # applications whose tables are there

    # Life

    @property
    def is_private(self) -> bool:
        """Whether it is in the memory of this process, where no other can see it."""

    @property
    def is_bound_to_loop(self) -> bool:
        """Whether it dies with the event loop on which it was opened."""

    @property
    def trouble(self) -> str | None:
        """What keeps calls from their answers at this moment, while they are tried again."""

    async def open(self) -> None:
        """Connect. Refuses a store without tables (``SchemaMissing``) or of a newer version."""

    async def close(self) -> None:
        """Finish what is under way and disconnect. May be called twice."""

    async def migrate(self, schemas: Iterable[Schema] = ()) -> int:
        """Make the engine's tables and those of applications, or bring them to their versions.

        In one transaction, under a lock; returns the version of the engine's. Safe to repeat.
        Tables that are newer, but on which this program still works, stay as they are.
        """

    async def ensure(self, schema: Schema) -> None:
        """Refuse a store without an application's tables; on SQLite, make them.

        An application calls it before it first uses them; it looks once while the store is open.
        Older tables: ``SchemaMissing``, which says what to run. Newer ones, on which this program
        does not work: ``SchemaTooNew``.
        """
        if schema not in self._ensured:
            await self._ensure(schema)
            self._ensured |= {schema}

    async def versions(self) -> dict[str, int]:
        """Return the version of each owner's tables; the engine's are "engine"."""

    async def check(self) -> list[str]:
        """Verify every invariant of the tables; return a sentence for each that does not hold."""

    async def prune(self) -> Pruned:
        """Take away finished history past its time, idle lanes, and what has expired.

        A done job is kept at least its queue's ``keep_done_seconds`` from the first prune that
        found it done; one without a key that was retried, from the prune that found its first
        attempt over.
        """

    # Producers

    async def enqueue(self, jobs: Iterable[NewJob], *, connection: Any = None) -> list[Ticket]:
        """Accept jobs, all or none, in the given order within each key.

        ``connection`` is the caller's own connection to PostgreSQL (asyncpg's, psycopg's,
        SQLAlchemy's, Django's) inside a transaction of its own; the jobs are then accepted when
        that commits.
        Raises ``BadInput``, ``DedupeConflict``, ``JobConflict`` (other work under a known id),
        ``QueueFull``; then nothing is stored.
        """
        jobs = listed("jobs", jobs)
        check_jobs(jobs, before=self._checked)
        if jobs:
            self._checked = jobs[-1]
        return await self._enqueue(jobs, connection) if jobs or connection is not None else []

    def enqueue_sync(self, jobs: Iterable[NewJob], *, connection: Any) -> list[Ticket]:
        """Accept jobs on a caller's own connection that is not async, on the caller's thread.

        The store need not be open. Their queues are made in the same transaction, unless
        ``make_queues`` made them before: while that is open, a new one is nobody else's.
        """
        jobs = listed("jobs", jobs)
        check_jobs(jobs)
        return self._enqueue_sync(jobs, connection) if jobs else []

    async def make_queues(self, queues: Iterable[str]) -> None:
        """Make queues that are not there yet, for a caller whose transaction is to hold none."""

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
        """Lease up to ``jobs_max`` jobs: lowest open round first, then priority, then age.

        From a keyed lane only its head and the jobs right behind it, all to this worker; a lane
        whose head waits to retry gives nothing. Costs a row per lane touched, whatever the
        backlog. A suspect comes under a lease of its own (``lease.alone``), at most
        ``suspects_max`` of them. With ``kinds``, only lanes whose head is of one of these; a job
        behind it may be of another kind, and is to be released. Delayed jobs that are due and
        lanes whose retry is due take their place first.
        """
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
        """Prolong leases from now on; return those that are lost.

        On PostgreSQL one that somebody has locked, such as a settle under its token, is asked for
        again in a moment. If it is locked for longer it is left as it is and counts as held:
        nobody can take it back meanwhile, and the next call prolongs it.
        """
        leases = listed("leases", leases)
        for lease in leases:
            check_lease(lease)
        check_number("lease_seconds", lease_seconds, 0.001, bounds.LEASE_SECONDS_MAX)
        return await self._extend(leases, lease_seconds) if leases else []

    async def progress(self, lease: Lease, job: UUID, *, fraction: float, note: str = "") -> None:
        """Say how far a leased job is: shown by ``job`` while it runs under this lease.

        Raises ``LeaseLost`` if the lease is gone. Costs nothing when the job is settled: ``prune``
        takes away what was said of jobs that run no more.
        """
        check_report(lease, job, fraction, note)
        await self._progress(lease, job, fraction, note)

    async def settle(self, settlements: Iterable[Settlement], *, worker: str) -> None:
        """Say what became of leased jobs: done, retry, bury or release, in any mix.

        A token that is gone, or a position not leased under it: ``LeaseLost``; an outcome that says
        more than "done" of another job than the lease holds at its position: ``WrongJob``. Then
        nothing of the call is written, unless a lost answer made the store repeat it: then
        ``LeaseLost`` may mean that it was written. A ``Retry`` when the attempts are spent buries.
        Jobs that waited for a done one join their lanes in the same transaction, or with a later
        claim where a producer's open transaction is in the way.
        """
        checked = check_settlements(listed("settlements", settlements), worker)
        if checked.settlements:
            await self._settle(checked)

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
        """Settle, then claim: what a busy worker does, in one transaction and one round trip.

        As ``settle``: when that raises, nothing is written or claimed. Then as ``claim``, which
        sees what was settled. Where that is a second transaction, and it fails, returns nothing:
        what is settled is settled. A turn whose answer was lost is repeated, as any verb is, and
        raises ``LeaseLost`` although its jobs are settled; what it claimed comes back as suspects
        when that lease runs out.
        """
        wish = make_wish(
            queue,
            jobs_max=jobs_max,
            worker=worker,
            lease_seconds=lease_seconds,
            kinds=kinds,
            suspects_max=suspects_max,
        )
        checked = check_settlements(listed("settlements", settlements), worker)
        if not checked.settlements:
            return await self._claim(wish)
        return await self._turn(checked, wish)

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open one transaction for settle, enqueue and the caller's own statements."""

    async def reclaim(self, *, leases_max: int = 100, gone: Iterable[str] = ()) -> Reclaimed:
        """Take back leases that ran out. Their unsettled jobs become suspects, leased alone.

        ``gone``: the ``process`` of workers that are known to be dead; what they hold ran out.

        Only a suspect that was leased alone has the crash counted against it; when its attempts
        are spent it is buried. Also admits blocked jobs whose wait ended unseen, and adds up what
        settles count; every worker calls this, from time to time.
        """
        check_whole("leases_max", leases_max, 1, bounds.CLAIM_JOBS_MAX)
        return await self._reclaim(leases_max, check_processes(gone))

    async def wait(self, queues: Iterable[str], *, timeout_seconds: float) -> bool:
        """Sleep until work may have arrived in one of the queues; say whether it was woken.

        A hint, never a promise: claim after it either way. Returns early when a delayed job or a
        retry becomes due.
        """
        queues = listed("queues", queues)
        check_queues(queues)
        check_number("timeout_seconds", timeout_seconds, 0.0, bounds.DELAY_SECONDS_MAX)
        return await self._wait(queues, timeout_seconds)

    async def beat(self, worker: WorkerView) -> None:
        """Say that a worker lives, what it runs, and which queues and kinds it takes."""
        check_worker(worker)
        await self._beat(worker)

    async def hold(self, duty: str, *, worker: str, seconds: float) -> bool:
        """Let one worker do a background duty, for so long; say whether this one may.

        Its holder prolongs that by asking again. Others may when the time is over, or when
        the holder has left.
        """
        check_name("duty", duty, bounds.KIND_CHARS_MAX)
        check_name("worker", worker, bounds.WORKER_CHARS_MAX)
        check_number("seconds", seconds, 0.001, bounds.LEASE_SECONDS_MAX)
        return await self._hold(duty, worker, seconds)

    async def leave(self, worker: str) -> None:
        """Say that a worker has ended: it is listed no more, and holds no duty. Its leases stay.

        One that dies cannot say it, and is listed as last seen until it is pruned.
        """
        check_name("worker", worker, bounds.WORKER_CHARS_MAX)
        await self._leave(worker)

    # Operators: queues and lanes

    async def configure(
        self, queue: str, settings: QueueSettings | Mapping[str, Any]
    ) -> QueueSettings:
        """Set how a queue behaves, making it if need be; return its settings.

        ``settings``: all of them, or those to change by name, as ``{"depth_max": 100}``.
        """
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        if isinstance(settings, QueueSettings):
            check_settings(settings)
            settings = msgspec.structs.asdict(settings)
        else:
            check_declared(settings)
        return await self._configure(queue, settings)

    async def settings(self) -> dict[str, QueueSettings]:
        """Return how every queue behaves: one small row each, whatever is in it."""

    async def declare(
        self, queues: Mapping[str, Mapping[str, Any]], *, missing_only: bool = False
    ) -> None:
        """Write settings that code says: those that it says otherwise than it did last.

        So what a person has configured holds until the code changes. A setting that is not named
        stays as it is. Queues are made if need be. ``missing_only``: only settings that code has
        never said, or of a queue that was dropped since; so two programs that differ do not take
        turns.
        """
        for queue, settings in queues.items():
            check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
            check_declared(settings)
        if not queues:
            return
        written = await self._declarations()
        if missing_only:
            queues = {
                queue: {
                    name: value
                    for name, value in settings.items()
                    if name not in written.get(queue, {})
                }
                for queue, settings in queues.items()
            }
        changed = {
            queue: settings
            for queue, settings in queues.items()
            if changed_settings(written.get(queue, {}), settings)
        }
        if changed:
            await self._declare(changed)

    async def drop_queue(self, queue: str, *, all: bool = False, by: str = "drop_queue") -> None:
        """Take a queue away, with its settings and its history.

        It must hold no unfinished job and no dead letter (``QueueInUse``). ``all``: it is paused,
        and these are cancelled, as if one by one; but none that runs. A job submitted later makes
        the queue anew, with the settings of a new one.
        """
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_by(by)
        status = next((one for one in await self.queues() if one.name == queue), None)
        if status is None:
            raise UnknownQueue(queue)
        if all:
            await self.pause(queue, by=by)
            await cancel_all(self, queue, by=by)
        try:
            while not await self._drop_queue(queue):
                pass
        except QueueInUse:
            if all and status.paused_by is None:
                await self.resume(queue)
            raise

    async def pause(self, queue: str, *, key: str | None = None, by: str) -> None:
        """Hold a queue, or one keyed lane of it. What runs goes on running."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_filter(key=key)
        check_by(by)
        await self._pause(queue, key, by)

    async def resume(self, queue: str, *, key: str | None = None) -> None:
        """Let a paused queue, or one keyed lane of it, go on."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_filter(key=key)
        await self._resume(queue, key)

    async def open_gate(self, queue: str, round: int) -> int:
        """Open the gate as far as ``round`` (it never closes); return the highest open round."""
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        check_whole("round", round, 0, bounds.ROUND_MAX)
        return await self._open_gate(queue, round)

    async def advance_gate(self, queue: str) -> Gate:
        """Open the next round that has jobs if nothing of the open rounds is unfinished.

        Waiting, running, retrying and blocked jobs are unfinished; where dead letters halt a
        queue (``on_dead``), they are too.
        """
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        return await self._advance_gate(queue)

    async def retry_lane(self, queue: str, key: str) -> UUID:
        """Run a halted lane's head again, with fresh attempts, in its place; return its id."""
        check_lane(queue, key)
        return await self._decide_lane(queue, key, "retry")

    async def skip_lane(self, queue: str, key: str) -> UUID:
        """Leave a halted lane's head among the dead letters and go on with the next."""
        check_lane(queue, key)
        return await self._decide_lane(queue, key, "skip")

    async def drop_lane(self, queue: str, key: str, *, by: str) -> UUID:
        """Cancel a halted lane's head for good and go on with the next."""
        check_lane(queue, key)
        check_by(by)
        return await self._decide_lane(queue, key, "drop", by)

    # Operators: jobs and dead letters

    async def cancel(self, job: UUID, *, by: str) -> JobState:
        """Cancel a job that is not running; return the state it has now.

        ``cancelled`` if it was or is cancelled; ``running``, ``done`` or ``dead`` if it is too late
        (a dead letter is dropped with ``dead_drop``). Jobs that wait for it are buried with the
        reason. Raises ``UnknownJob``.
        """
        check_id("job", job)
        check_by(by)
        return await self._cancel(job, by)

    async def dead_retry(self, jobs: Iterable[UUID]) -> list[UUID]:
        """Put dead letters back with fresh attempts; return those that were dead until now.

        Keyed: at its lane's head if the lane is halted on it, else at the tail. Asked again, it
        does nothing: a job is put back once. So after an answer that was lost, and a second try of
        the store's own, the list may leave out jobs that were put back. A job that was buried
        because one it waits for can never be done runs now: whoever asks has decided that.
        """
        jobs = listed("jobs", jobs)
        check_ids("job", jobs)
        return await self._dead_retry(sorted(set(jobs)))

    async def dead_drop(self, jobs: Iterable[UUID], *, by: str) -> list[UUID]:
        """Cancel dead letters for good; return those that were dead until now.

        Jobs that wait for them are buried with the reason; a lane halted on one goes on. The list
        may leave out what was dropped, as that of ``dead_retry`` may.
        """
        jobs = listed("jobs", jobs)
        check_ids("job", jobs)
        check_by(by)
        return await self._dead_drop(sorted(set(jobs)), by)

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
        return await self._dead_letters(Asked(queue, kind, key, cursor, rows_max))

    # Applications

    async def apply(self, change: Change) -> list[Ticket]:
        """Do all that a change says, or nothing; return the tickets of what it enqueues.

        For what needs no read in between: on SQLite it shares a commit with others, where an open
        transaction holds the only writer. On PostgreSQL it is one transaction, which is not
        repeated when the server went away: then it may be committed or not.
        """
        return await self._apply(checked(change, self._slices))

    async def read(self, query: Query[Row], /, **parameters: Any) -> list[Row]:
        """Run an application's query, which may not write, and return its rows. Never waits for
        what is being written.
        """
        return await self._run(query, parameters)


async def cancel_all(store: Store, queue: str, *, by: str) -> None:
    """Cancel what of a queue has not begun, and drop its dead letters."""
    cursor: str | None = ""
    while cursor is not None:
        page = await store.jobs(queue=queue, finished=False, cursor=cursor or None, rows_max=100)
        await asyncio.gather(*(store.cancel(one.job.id, by=by) for one in page.rows))
        cursor = page.cursor
    while letters := (await store.dead_letters(queue=queue)).rows:
        await store.dead_drop([one.job.id for one in letters], by=by)

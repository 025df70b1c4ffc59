"""Accepting jobs: small enqueues that come at the same time share a statement and a commit."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from typing import Any

import asyncpg

from inturn.model.errors import QueueFull, StoreBusy
from inturn.model.job import NewJob, Ticket
from inturn.store.postgres.enqueue import (
    accept_rest,
    check_same,
    enqueue,
    enqueue_together,
    with_time,
)
from inturn.store.postgres.faults import GONE, TOLD, accepted_before
from inturn.store.postgres.pool import Connection, Pool
from inturn.store.postgres.sql import query

RETRIES_MAX = 10
"""So often an enqueue of a known job is tried again: each time nothing of it was stored."""

JOBS_MAX = 500
"""So many jobs share a statement at most."""

SMALL_JOBS_MAX = 50
SMALL_CHARS_MAX = 100_000
"""An enqueue of more is company enough for itself."""

WAIT_SECONDS_MAX = 0.005
"""So long an enqueue waits for the one before it, which may be waiting for a lock."""

Line = tuple[str, str | None]
"""A queue and a key: where jobs may have to wait for another producer's transaction."""


class Enqueue:
    """One producer's jobs, waiting to be sent, and the future its producer awaits."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self.jobs = jobs
        self.tickets: asyncio.Future[list[Ticket]] = asyncio.get_running_loop().create_future()


class Producer:
    """Accepts jobs, all or none: at once if it is the only enqueue, and else with those that come
    meanwhile.

    Several producers' jobs go in one statement, which gives up soon when it would have to wait for
    a lock; then each producer's are sent alone, with all patience. While jobs of a key are sent
    alone for that, so are the others of that key: a transaction that is open on it holds up nobody
    else.

    A producer that is cancelled before its jobs were sent withdraws them; later it cannot know what
    became of them, as with any call that is cancelled.
    """

    def __init__(self, pool: Pool, now: Callable[[], datetime | None]) -> None:
        self._pool, self._now = pool, now
        self._waiting: deque[Enqueue] = deque()
        self._under_way = 0
        self._apart: Counter[Line] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._errands: set[asyncio.Task[None]] = set()

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        """Accept jobs in a transaction of our own, which other enqueues may share."""
        try:
            with self._pool.working:
                return await self._enqueue(jobs)
        except QueueFull as full:
            raise await self._with_time(full) from full

    async def enqueue_within(self, connection: Connection, jobs: Sequence[NewJob]) -> list[Ticket]:
        """Accept jobs in the caller's own transaction, which one that is known spoils."""
        await self.make_queues(connection, [job.queue for job in jobs])
        try:
            with TOLD:
                return await enqueue(connection, jobs, self._now())
        except QueueFull as full:
            raise await self._with_time(full) from full
        except asyncpg.UniqueViolationError as error:
            await self._pool.run(lambda own: check_same(own, jobs))
            raise accepted_before() from error

    async def make_queues(self, connection: Connection, queues: Iterable[str]) -> None:
        """Make queues that are new apart from the transaction of a connection: while that is open,
        their rows would hold up every other producer of the queue.
        """
        names = sorted(set(queues))
        if not names:
            return
        with TOLD:
            missing = await connection.fetch(query("missing_queues"), names)
        if missing:
            await self._pool.apart(
                lambda own: own.execute(query("make_queues"), [row["name"] for row in missing])
            )

    async def _with_time(self, full: QueueFull) -> QueueFull:
        """Return a refusal with the time to come back."""
        return await self._pool.run(functools.partial(with_time, full=full, now=self._now()))

    async def _enqueue(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        if not self._may_share(jobs):
            return await self._alone(jobs)
        if not self._under_way:
            with self:
                return await self._alone(jobs)
        enqueue = Enqueue(jobs)
        self._waiting.append(enqueue)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(WAIT_SECONDS_MAX, self._send_waiting)
        return await enqueue.tickets

    def _may_share(self, jobs: Sequence[NewJob]) -> bool:
        return (
            len(jobs) <= SMALL_JOBS_MAX
            and not any(job.after or job.after_failed or job.delay_seconds for job in jobs)
            and sum([len(job.payload) for job in jobs]) <= SMALL_CHARS_MAX
            and not (self._apart and any(line in self._apart for line in _lines(jobs)))
        )

    def __enter__(self) -> None:
        """Be under way: others wait meanwhile."""
        self._under_way += 1

    def __exit__(self, *_: object) -> None:
        self._under_way -= 1
        if self._waiting:
            self._send_waiting()

    def _send_waiting(self) -> None:
        """Send what waits, in as many statements as it takes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while group := self._next_group():
            self._start(self._send(group))

    def _next_group(self) -> list[Enqueue]:
        """Take from those that wait what one statement holds, but for whoever was cancelled."""
        group: list[Enqueue] = []
        count = 0
        while self._waiting and count + len(self._waiting[0].jobs) <= JOBS_MAX:
            enqueue = self._waiting.popleft()
            if not enqueue.tickets.done():
                group.append(enqueue)
                count += len(enqueue.jobs)
        return group

    async def _send(self, group: Sequence[Enqueue]) -> None:
        with self:
            if len(group) == 1:
                await self._send_alone(group[0])
            else:
                await self._send_together(group)

    async def _send_together(self, group: Sequence[Enqueue]) -> None:
        try:
            async with self._pool.connection() as connection:
                jobs = [job for one in group for job in one.jobs]
                tickets = iter(await enqueue_together(connection, jobs, self._now()))
        except Exception as error:
            # Whose fault it was, if anyone's, shows when each is sent alone.
            for one in group:
                self._start(self._send_apart(one, error if isinstance(error, GONE) else None))
            return
        for one in group:
            own = [next(tickets) for _ in one.jobs]
            if not one.tickets.done():
                one.tickets.set_result(own)

    async def _send_apart(self, enqueue: Enqueue, cut: Exception | None) -> None:
        lines = Counter(_lines(enqueue.jobs))
        self._apart += lines
        try:
            await self._send_alone(enqueue, cut)
        finally:
            self._apart -= lines

    async def _send_alone(self, enqueue: Enqueue, cut: Exception | None = None) -> None:
        try:
            tickets = await self._alone(enqueue.jobs, cut)
        except Exception as error:
            if not enqueue.tickets.done():
                enqueue.tickets.set_exception(error)
        else:
            if not enqueue.tickets.done():
                enqueue.tickets.set_result(tickets)

    async def _alone(self, jobs: Sequence[NewJob], cut: Exception | None = None) -> list[Ticket]:
        """Accept one producer's jobs, which may be stored already if a try before was ``cut``."""
        again = cut is not None

        async def verb(connection: Connection) -> list[Ticket]:
            nonlocal again
            if again:
                return await accept_rest(connection, jobs, self._now())
            again = True
            return await enqueue(connection, jobs, self._now())

        try:
            for _ in range(RETRIES_MAX):
                with contextlib.suppress(asyncpg.UniqueViolationError):
                    return await self._pool.run(verb)  # else one of the jobs is known
            return await self._pool.run(verb)
        except StoreBusy as busy:
            if cut is None:
                raise
            with TOLD:  # an earlier try was sent, and may be committed
                raise cut from busy

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        errand = asyncio.get_running_loop().create_task(work)
        self._errands.add(errand)  # the loop itself keeps none alive
        errand.add_done_callback(self._errands.discard)


def _lines(jobs: Sequence[NewJob]) -> list[Line]:
    return [(job.queue, job.key) for job in jobs]

"""Company for small enqueues: those that come at the same time share a statement and a commit."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from inturn.model.job import NewJob, Ticket
from inturn.store.postgres.enqueue import is_plain
from inturn.store.postgres.faults import GONE

JOBS_MAX = 500
"""So many jobs share a statement at most."""

SMALL_JOBS_MAX = 50
SMALL_CHARS_MAX = 100_000
"""An enqueue of more is company enough for itself."""

WAIT_SECONDS_MAX = 0.005
"""So long an enqueue waits for the one before it, which may be waiting for a lock."""

Together = Callable[[Sequence[NewJob]], Awaitable[list[Ticket]]]
Line = tuple[str, str | None]
"""A queue and a key: where jobs may have to wait for another producer's transaction."""


class Alone(Protocol):
    """Accepts one producer's jobs, which may be stored already if they are sent ``again``.

    ``cut``: what cut off the try before, if something did.
    """

    async def __call__(
        self, jobs: Sequence[NewJob], *, again: bool = False, cut: Exception | None = None
    ) -> list[Ticket]: ...


class Enqueue:
    """One producer's jobs, waiting to be sent, and the future its producer awaits."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self.jobs = jobs
        self.tickets: asyncio.Future[list[Ticket]] = asyncio.get_running_loop().create_future()


class Company:
    """Sends an enqueue at once if it is the only one, and else with those that come meanwhile.

    ``together`` accepts the jobs of several producers in one statement, and gives up soon when it
    would have to wait for a lock; ``alone`` accepts those of one, with all patience. While jobs of
    a key are sent alone for that, so are the others of that key: a transaction that is open on it
    holds up nobody else.

    A producer that is cancelled before its jobs were sent withdraws them; later it cannot know what
    became of them, as with any call that is cancelled.
    """

    def __init__(self, together: Together, alone: Alone) -> None:
        self._together, self._alone = together, alone
        self._waiting: deque[Enqueue] = deque()
        self._under_way = 0
        self._apart: Counter[Line] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._errands: set[asyncio.Task[None]] = set()

    def has_only(self, job: NewJob) -> bool:
        """Say whether a job could be sent by itself, and would have to wait for no other."""
        return not (self._under_way or self._apart) and (
            is_plain(job) and len(job.payload) <= SMALL_CHARS_MAX
        )

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        """Accept jobs, all or none."""
        if not self._is_sociable(jobs):
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

    def _is_sociable(self, jobs: Sequence[NewJob]) -> bool:
        return (
            len(jobs) <= SMALL_JOBS_MAX
            and all(map(is_plain, jobs))
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
        """Take from those that wait what one statement holds, but for who was cancelled."""
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
            tickets = iter(await self._together([job for one in group for job in one.jobs]))
        except Exception as error:
            # Whose fault it was, if anyone's, shows when each is sent alone.
            for enqueue in group:
                self._start(self._send_apart(enqueue, error if isinstance(error, GONE) else None))
            return
        for enqueue in group:
            own = [next(tickets) for _ in enqueue.jobs]
            if not enqueue.tickets.done():
                enqueue.tickets.set_result(own)

    async def _send_apart(self, enqueue: Enqueue, cut: Exception | None) -> None:
        lines = Counter(_lines(enqueue.jobs))
        self._apart += lines
        try:
            await self._send_alone(enqueue, cut)
        finally:
            self._apart -= lines

    async def _send_alone(self, enqueue: Enqueue, cut: Exception | None = None) -> None:
        try:
            tickets = await self._alone(enqueue.jobs, again=cut is not None, cut=cut)
        except Exception as error:
            if not enqueue.tickets.done():
                enqueue.tickets.set_exception(error)
        else:
            if not enqueue.tickets.done():
                enqueue.tickets.set_result(tickets)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        errand = asyncio.get_running_loop().create_task(work)
        self._errands.add(errand)  # the loop itself keeps none alive
        errand.add_done_callback(self._errands.discard)


def _lines(jobs: Sequence[NewJob]) -> list[Line]:
    return [(job.queue, job.key) for job in jobs]

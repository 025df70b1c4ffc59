"""Room in a store's queues for what an executor accepts, and who waits until there is some."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Never

from inturn.model.errors import EnqueueTimeout, ShardFull, StoreError
from inturn.model.job import NewJob

LOOK_SECONDS = 0.02  # between two looks at a queue that is full
FRESH_SECONDS = 1.0  # for so long a look counts, what was let in since then counted with it

LOOKS_SHARE_MAX = 0.05  # of the time may go into looks that nobody waits for

Depths = Mapping[str, int]
Read = Callable[[], Awaitable[Depths]]


class StoreRoom:
    """Lets jobs in while few enough wait in their queues: in each, first come first served.

    The store is asked how many do. What one executor let in since it asked is counted by itself;
    what others submit is seen with the next look. ``check`` raises when nobody is let in any more,
    also to those who wait.
    """

    def __init__(self, read: Read, capacity: int, check: Callable[[], None] = lambda: None) -> None:
        self._read, self._capacity, self._check = read, capacity, check
        # Those who found no room, the first first; only queues where someone waits.
        self._lines: dict[str, deque[object]] = {}
        self._reading = asyncio.Lock()
        self._entering: Counter[str] = Counter()  # let in, and not in the store yet
        self._since: Counter[str] = Counter()  # in the store since the last look
        self._depths: Depths = {}
        self._asked_at = self._read_at = float("-inf")  # the last look: its beginning, its end

    @property
    def depth(self) -> int:
        """How many jobs waited when the store was last asked."""
        return sum(self._depths.values())

    async def enter(self, jobs: Sequence[NewJob], seconds: float, *, ends_at: float) -> None:
        """Wait until all of these may be submitted, or raise which queue is full.

        ``seconds`` is how long the caller waits in all, and ``ends_at`` when that is over. A store
        that answers late is waited for: it has not said that there is no room.
        """
        caller, needs = object(), Counter(job.queue for job in jobs)
        if max(needs.values()) > self._capacity:
            raise self._complaint(caller, jobs, 0.0)
        loop = asyncio.get_running_loop()
        try:
            while True:
                fits = self._is_next(caller, needs) and await self._fits(needs)
                self._check()
                if fits and self._is_next(caller, needs):
                    self._entering.update(needs)
                    return
                if loop.time() >= ends_at:
                    raise self._complaint(caller, jobs, seconds)
                self._stand_in_line(caller, needs)
                await asyncio.sleep(min(LOOK_SECONDS, ends_at - loop.time()))
        finally:
            self._leave_line(caller, needs)

    def _is_next(self, caller: object, queues: Iterable[str]) -> bool:
        """Whether nobody has waited longer for room in any of some queues."""
        lines = self._lines
        return all(queue not in lines or lines[queue][0] is caller for queue in queues)

    def _stand_in_line(self, caller: object, queues: Iterable[str]) -> None:
        # In every line at once, so that no two who need the same queues wait for each other.
        for queue in queues:
            line = self._lines.setdefault(queue, deque())
            if caller not in line:
                line.append(caller)

    def _leave_line(self, caller: object, queues: Iterable[str]) -> None:
        for queue in queues:
            line = self._lines.get(queue, deque())
            if caller in line:
                line.remove(caller)
                if not line:
                    del self._lines[queue]

    def entered(self, jobs: Sequence[NewJob], *, accepted: bool) -> None:
        """Hear what became of jobs that were let in."""
        needs = Counter(job.queue for job in jobs)
        self._entering.subtract(needs)
        if accepted:
            self._since.update(needs)

    async def _fits(self, needs: Depths) -> bool:
        came_at = monotonic()
        async with self._reading:  # those who come while the store is asked ask again, all at once
            is_stale = monotonic() - self._read_at > FRESH_SECONDS
            if is_stale or (self._asked_at <= came_at and not self._has_room(needs)):
                await self._look(self._read)
        return self._has_room(needs)

    async def look_on(self, read: Read) -> Never:
        """Look as long as nobody else does, so that ``depth`` is right while nobody comes."""
        while True:
            began = monotonic()
            with suppress(StoreError):  # the worker says so, and it may pass
                async with self._reading:
                    if began - self._read_at > FRESH_SECONDS / 2:
                        await self._look(read)
            await asyncio.sleep(max(FRESH_SECONDS, (monotonic() - began) / LOOKS_SHARE_MAX))

    async def _look(self, read: Read) -> None:
        # What enters meanwhile may count twice, and never not at all.
        before, self._since = self._since, Counter()
        asked_at = monotonic()
        try:
            self._depths = await read()
        except BaseException:
            self._since.update(before)
            raise
        self._asked_at, self._read_at = asked_at, monotonic()

    def _has_room(self, needs: Depths) -> bool:
        return all(self._depth(queue) + count <= self._capacity for queue, count in needs.items())

    def _depth(self, queue: str) -> int:
        return self._depths.get(queue, 0) + self._entering[queue] + self._since[queue]

    def _complaint(self, caller: object, jobs: Sequence[NewJob], waited: float) -> ShardFull:
        needs = Counter(job.queue for job in jobs)
        full = [job for job in jobs if not self._has_room({job.queue: needs[job.queue]})]
        behind = [job for job in jobs if not self._is_next(caller, [job.queue])]
        fullest = [*full, *behind, *jobs][0]
        key, queue = fullest.key or "", fullest.queue
        length, added = self._depth(queue), needs[queue]
        if waited:
            return EnqueueTimeout(key, 0, length, self._capacity, added, waited, queue=queue)
        return ShardFull(key, 0, length, self._capacity, added, queue=queue)

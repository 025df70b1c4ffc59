"""Room in a store's queues for what an executor accepts, and who waits until there is some."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
    """Lets jobs in while few enough wait in their queues, first come first served.

    The store is asked how many do. What one executor let in since it asked is counted by itself;
    what others submit is seen with the next look. ``check`` raises when nobody is let in any more,
    also to those who wait.
    """

    def __init__(self, read: Read, capacity: int, check: Callable[[], None] = lambda: None) -> None:
        self._read, self._capacity, self._check = read, capacity, check
        self._line: deque[object] = deque()  # those who found no room, the first first
        self._reading = asyncio.Lock()
        self._entering: Counter[str] = Counter()  # let in, and not in the store yet
        self._since: Counter[str] = Counter()  # in the store since the last look
        self._depths: Depths = {}
        self._read_at = float("-inf")

    @property
    def depth(self) -> int:
        """How many jobs waited when the store was last asked."""
        return sum(self._depths.values())

    async def enter(self, jobs: Sequence[NewJob], seconds: float, *, ends_at: float) -> None:
        """Wait until all of these may be submitted, or raise which queue is full.

        ``seconds`` is how long the caller waits in all, and ``ends_at`` when that is over. A store
        that answers late is waited for: it has not said that there is no room.
        """
        needs = Counter(job.queue for job in jobs)
        if max(needs.values()) > self._capacity:
            raise self._complaint(jobs, needs, 0.0)
        caller, loop = object(), asyncio.get_running_loop()
        try:
            while True:
                fits = self._is_next(caller) and await self._fits(needs)
                self._check()
                if fits and self._is_next(caller):
                    self._entering.update(needs)
                    return
                if loop.time() >= ends_at:
                    raise self._complaint(jobs, needs, seconds)
                if caller not in self._line:
                    self._line.append(caller)
                await asyncio.sleep(min(LOOK_SECONDS, ends_at - loop.time()))
        finally:
            if caller in self._line:
                self._line.remove(caller)

    def _is_next(self, caller: object) -> bool:
        return not self._line or self._line[0] is caller

    def entered(self, jobs: Sequence[NewJob], *, accepted: bool) -> None:
        """Hear what became of jobs that were let in."""
        needs = Counter(job.queue for job in jobs)
        self._entering.subtract(needs)
        if accepted:
            self._since.update(needs)

    async def _fits(self, needs: Depths) -> bool:
        async with self._reading:  # who comes while the store is asked has the same answer
            if monotonic() - self._read_at > FRESH_SECONDS or not self._has_room(needs):
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
        try:
            self._depths = await read()
        except BaseException:
            self._since.update(before)
            raise
        self._read_at = monotonic()

    def _has_room(self, needs: Depths) -> bool:
        return all(self._depth(queue) + count <= self._capacity for queue, count in needs.items())

    def _depth(self, queue: str) -> int:
        return self._depths.get(queue, 0) + self._entering[queue] + self._since[queue]

    def _complaint(self, jobs: Sequence[NewJob], needs: Depths, waited: float) -> ShardFull:
        fullest = next(
            (job for job in jobs if self._depth(job.queue) + needs[job.queue] > self._capacity),
            jobs[0],
        )
        key, queue = fullest.key or "", fullest.queue
        length, added = self._depth(queue), needs[queue]
        if waited:
            return EnqueueTimeout(key, 0, length, self._capacity, added, waited, queue=queue)
        return ShardFull(key, 0, length, self._capacity, added, queue=queue)

"""Room in a store's queues for what an executor accepts, and who waits until there is some."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic

from inturn.model.errors import EnqueueTimeout, ShardFull
from inturn.model.job import NewJob

LOOK_SECONDS = 0.02  # between two looks at a queue that is full
FRESH_SECONDS = 1.0  # for so long a look counts, what was let in since then counted with it

Depths = Mapping[str, int]


class StoreRoom:
    """Lets jobs in while few enough wait in their queues, first come first served.

    The store is asked how many do. What one executor let in since it asked is counted by itself;
    what others submit is seen with the next look.
    """

    def __init__(self, read: Callable[[], Awaitable[Depths]], capacity: int) -> None:
        self._read, self._capacity = read, capacity
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
                if self._is_next(caller) and await self._fits(needs) and self._is_next(caller):
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
                self._since.clear()  # what enters meanwhile may count twice, and never not at all
                self._depths = await self._read()
                self._read_at = monotonic()
        return self._has_room(needs)

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

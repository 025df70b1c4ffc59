"""The queues that may have work: each in its turn, and who is woken when there are more."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence


class Ready:
    """Knows of every queue whether it may have work. For the worker's loop only."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._queues = queues
        self._ready: deque[str] = deque(queues)
        self.news = 0  # how often someone said that there may be work
        self.wake = asyncio.Event()  # there is something to do
        self._drained = asyncio.Event()

    def __bool__(self) -> bool:
        """Whether any queue may have work."""
        return bool(self._ready)

    @property
    def is_full(self) -> bool:
        """Whether every queue may have work: then more of it is no news."""
        return len(self._ready) == len(self._queues)

    def add_all(self) -> None:
        """Every queue may have work. Each keeps its turn: what wakes often starves none."""
        self._ready.extend(one for one in self._queues if one not in self._ready)
        self.news += 1
        self.wake.set()

    def add(self, queue: str) -> None:
        """One queue may have work."""
        if queue not in self._ready:
            self._ready.append(queue)

    def next(self) -> str | None:
        """Return the queue whose turn it is; it will be the last the next time."""
        if not self._ready:
            return None
        self._ready.rotate(-1)
        return self._ready[-1]

    def remove(self, queue: str, *, news: int) -> None:
        """A queue was found empty, unless there were news since: until someone says otherwise."""
        if news == self.news and queue in self._ready:
            self._ready.remove(queue)
            self._drained.set()

    async def until_one_is_drained(self) -> None:
        """Wait until a queue has been found empty."""
        self._drained.clear()
        await self._drained.wait()

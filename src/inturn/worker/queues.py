"""The queues that a worker claims from, each in its turn; and what wakes it when there is work."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from inturn.model import bounds
from inturn.model.admissible import check_name, check_queues, listed
from inturn.model.errors import StoreError
from inturn.model.lane import NODE, QueueSettings
from inturn.queue.app import App
from inturn.queue.extensions import attach_used
from inturn.store.store import Store


class QueuesServed:
    """A worker's queues.

    Told none, it serves those of the app's jobs, and every node of the store if an application
    with nodes is attached; but a local queue only if it is told to, as by its node's name. It
    attaches an application when it first sees a queue of it in the store.
    """

    def __init__(self, app: App, queues: Iterable[str] | None, nodes: Iterable[str]) -> None:
        self._app = app
        self._told = None if queues is None else listed("queues", queues)
        check_queues(self._told or ())
        nodes = listed("nodes", nodes)
        for node in nodes:
            check_name("node", node, bounds.QUEUE_CHARS_MAX - len(NODE))
        self._nodes = [NODE + node for node in nodes]
        self._seen: set[str] = set()
        self.limited: frozenset[str] = frozenset()
        self.names: list[str] = []  # changes in place
        self.hear({})

    def hear(self, settings: Mapping[str, QueueSettings]) -> bool:
        """Take in how the store's queues behave; say whether the worker has others to serve."""
        self.limited = frozenset(name for name, one in settings.items() if one.is_limited)
        if unknown := settings.keys() - self._seen - self._of_jobs():
            self._seen |= unknown
            attach_used(self._app, unknown)
        if self._told is None:
            found = self._of_jobs() or {"default"}
            if any(one.has_nodes for one in self._app.extensions.values()):
                found |= {name for name in settings if name.startswith(NODE)}
            names = sorted(one for one in found if one not in settings or not settings[one].local)
        else:
            names = list(self._told)
        names += [node for node in self._nodes if node not in names]
        is_news = names != self.names
        self.names[:] = names
        return is_news

    def _of_jobs(self) -> set[str]:
        return {job.options.queue for job in self._app.jobs.values()}


WAIT_SECONDS = 0.5  # what becomes due later than a wait began is seen by the next
UNHEARD_SECONDS = 0.02  # between two waits, for as long as the second takes to begin
TROUBLE_SECONDS = 0.5


class QueuesReady:
    """Knows of every queue whether it may have work. For the worker's loop, but for ``rouse``."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._queues = queues
        self._ready: deque[str] = deque(queues)
        self.news = 0  # how often someone said that there may be work
        self.wake = asyncio.Event()  # there is something to do
        self._drained = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def __bool__(self) -> bool:
        """Whether any queue may have work."""
        return bool(self._ready)

    def begin(self) -> None:
        """Wake the loop that runs here from now on."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def rouse(self) -> None:
        """Let the worker look at what has ended. From any thread."""
        if threading.get_ident() == self._thread:
            self.wake.set()
        elif self._loop is not None:
            with suppress(RuntimeError):  # it was closed: there is nothing left to wake
                self._loop.call_soon_threadsafe(self.wake.set)

    def add_all(self) -> None:
        """Every queue may have work. Each keeps its turn: what wakes often starves none."""
        kept = [one for one in self._ready if one in self._queues]
        self._ready = deque([*kept, *(one for one in self._queues if one not in kept)])
        self.news += 1
        self.wake.set()

    def add(self, queue: str) -> None:
        """One queue may have work."""
        if queue not in self._ready and queue in self._queues:
            self._ready.append(queue)

    def add_after(self, seconds: float) -> None:
        """Every queue may have work in a while."""
        if self._loop is not None:
            self._loop.call_later(seconds, self.add_all)

    def next(self, passed_over: Collection[str] = ()) -> str | None:
        """Return the queue whose turn it is; it will be the last the next time."""
        for _ in range(len(self._ready)):
            self._ready.rotate(-1)
            if self._ready[-1] not in passed_over:
                return self._ready[-1]
        return None

    def remove(self, queue: str, *, news: int) -> None:
        """A queue was found empty, unless there were news since: until someone says otherwise."""
        if news == self.news and queue in self._ready:
            self._ready.remove(queue)
            self._drained.set()

    async def listen(self, store: Store) -> None:
        """Hear for ever from the store that there may be work in one of the queues."""
        while True:
            try:
                if await store.wait(self._queues, timeout_seconds=WAIT_SECONDS):
                    if len(self._ready) == len(self._queues):
                        # A backlog that finds no slot would be news again and again.
                        self._drained.clear()
                        await self._drained.wait()
                        # What came before the next wait hears it is seen a moment later.
                        self.add_after(UNHEARD_SECONDS)
                        continue
                    self.add_all()
            except StoreError:  # steps and heartbeats say so
                await asyncio.sleep(TROUBLE_SECONDS)

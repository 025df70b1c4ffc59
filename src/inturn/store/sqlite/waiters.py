"""Those who wait for work: woken by a commit here or in another process, or when work is due."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Collection
from contextlib import closing, suppress

from inturn.model.clock import Clock, SystemClock
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.rows import SECOND, Micros, micros

POLL_SECONDS = 0.001
QUIET_POLL_SECONDS = 0.004  # where nothing was committed for a while: most of the cost is waking up
QUIET_SECONDS = 1.0
LINGER_SECONDS = 1.0


class Waiter:
    """One caller that sleeps until work may have arrived in one of its queues."""

    def __init__(self, queues: Collection[str], seen: dict[str, int | None]) -> None:
        self.queues = tuple(queues)
        self.seen = seen  # per queue, how often it was woken when it was last known to be empty
        self.due: Micros | None = None
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[bool] = self.loop.create_future()
        self.timers: list[asyncio.TimerHandle] = []

    def resolve(self, woken: bool) -> None:
        """End the sleep; runs on the caller's loop."""
        if not self.future.done():
            self.future.set_result(woken)

    def resolve_after(self, seconds: float, woken: bool) -> None:
        """End the sleep after some time; runs on the caller's loop."""
        self.timers.append(self.loop.call_later(max(seconds, 0.0), self.resolve, woken))

    def call(self, callback: Callable[..., None], *arguments: object) -> None:
        """Run a callback on the caller's loop, if that still runs."""
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self.loop.call_soon_threadsafe(callback, *arguments)


class Waiters:
    """Everyone in this process who waits for work in one store."""

    def __init__(self, clock: Clock, connect: Callable[[], sqlite3.Connection] | None) -> None:
        self._clock = clock
        self._connect = connect  # None in memory, where no other process can write
        self._lock = threading.Lock()
        self._waiting: set[Waiter] = set()
        self._seen: dict[str, int] = {}
        self._commits = 0  # that were noticed; some of them twice
        self._waiting_for_commit: set[Waiter] = set()
        self._watching = False
        self._closing = False
        self._nudge = threading.Event()
        self.stir: Callable[[], None] | None = None  # in memory: make the writer look
        self._thread: threading.Thread | None = None

    async def wait(self, queues: Collection[str], *, timeout_seconds: float) -> bool:
        """Sleep until work may have arrived; say whether it was woken."""
        waiter = Waiter(queues, {queue: self._seen.get(queue) for queue in queues})
        waiter.resolve_after(timeout_seconds, False)
        return await self._wait(waiter, self._waiting)

    async def wait_commit(self, seen: int, *, timeout_seconds: float) -> int:
        """Sleep until anything was committed, here or elsewhere; return how often that was so."""
        waiter = Waiter((), {})
        waiter.resolve_after(timeout_seconds, False)
        if self._commits == seen:
            await self._wait(waiter, self._waiting_for_commit, seen)
        return self._commits

    async def _wait(self, waiter: Waiter, among: set[Waiter], seen: int | None = None) -> bool:
        with self._lock:
            among.add(waiter)
            self._watch()
            if seen is not None and self._commits != seen:
                waiter.resolve(True)
        try:
            return await waiter.future
        finally:
            with self._lock:
                among.discard(waiter)
            for timer in waiter.timers:
                timer.cancel()

    def left_empty(self, queue: str, woken: int) -> None:
        """Note that a claim took all it could get: only what comes after that is news."""
        self._seen[queue] = woken

    def look(self, connection: sqlite3.Connection) -> None:
        """Wake those for whom something has come; called after a commit."""
        self._note_commit()
        self._tell_all(connection)

    def _tell_all(self, connection: sqlite3.Connection) -> None:
        if not self._waiting:
            return
        with self._lock, suppress(Exception):  # a hint: whoever waits looks again in time
            signals: dict[str, tuple[int, Micros | None, int]] = {}
            now = micros(self._clock.now())
            for waiter in self._waiting:
                for queue in waiter.queues:
                    if queue not in signals:
                        signals[queue] = signal(connection, queue)
                self._tell(waiter, signals, now)

    def _note_commit(self) -> None:
        with self._lock:
            self._commits += 1
            for waiter in self._waiting_for_commit:
                waiter.call(waiter.resolve, True)

    def close(self) -> None:
        """Wake everyone and stop watching. Blocks."""
        with self._lock:
            self._closing = True
            for waiter in self._waiting | self._waiting_for_commit:
                waiter.call(waiter.resolve, False)
            thread = self._thread
        self._nudge.set()
        if thread is not None:
            thread.join()

    def _tell(
        self, waiter: Waiter, signals: dict[str, tuple[int, Micros | None, int]], now: Micros
    ) -> None:
        """Wake a waiter if a queue of its has news or something due; else see when it will be."""
        due: Micros | None = None
        for queue in waiter.queues:
            woken, due_at, claimable = signals[queue]
            if waiter.seen[queue] is None:
                waiter.seen[queue] = -1 if claimable else woken
            if waiter.seen[queue] != woken or (due_at is not None and due_at <= now):
                waiter.call(waiter.resolve, True)
                return
            if due_at is not None:
                due = due_at if due is None else min(due, due_at)
        if due is not None and due != waiter.due and isinstance(self._clock, SystemClock):
            if waiter.due is None or due < waiter.due:
                waiter.call(waiter.resolve_after, (due - now) / SECOND + 0.001, True)
            waiter.due = due

    def _watch(self) -> None:
        """See to it that a thread looks out for other processes. Called under the lock."""
        if self._connect is None:
            if self.stir is not None:
                self.stir()
            return
        self._nudge.set()
        if not self._watching and not self._closing:
            self._watching = True
            self._thread = threading.Thread(
                target=self._run, args=(self._connect,), name="inturn watch", daemon=True
            )
            self._thread.start()

    def _run(self, connect: Callable[[], sqlite3.Connection]) -> None:
        """Look out until nobody has waited for a while. Without it, waits end by their timeouts."""
        try:
            with closing(connect()) as connection:
                self._poll(connection)
        except Exception:
            with self._lock:
                self._watching = False

    def _poll(self, connection: sqlite3.Connection) -> None:
        """Look whenever ``data_version`` changes, as it does when any other connection commits."""
        now = changed_at = idle_since = time.monotonic()
        version = -1
        while not self._closing:
            is_quiet = now - changed_at > QUIET_SECONDS
            nudged = self._nudge.wait(QUIET_POLL_SECONDS if is_quiet else POLL_SECONDS)
            if nudged:  # and only then: a nudge that comes just after the time was up is not lost
                self._nudge.clear()
            now = time.monotonic()
            found = connection.execute("pragma data_version").fetchone()[0]
            if found != version:
                version, changed_at, nudged = found, now, True
                self._note_commit()
            if nudged:
                self._tell_all(connection)
            with self._lock:
                if self._waiting or self._waiting_for_commit:
                    idle_since = now
                elif now - idle_since > LINGER_SECONDS:
                    self._watching = False  # under the lock: who comes now starts another
                    return


def signal(connection: sqlite3.Connection, queue: str) -> tuple[int, Micros | None, int]:
    """Return how often a queue was woken, when something of it is due, and if it has work now."""
    row: tuple[int, Micros | None, int] | None
    row = connection.execute(query("signal"), {"queue": queue}).fetchone()
    return row or (0, None, 0)


def woken(connection: sqlite3.Connection, queue: str) -> int:
    """Return how often something of a queue became claimable."""
    row = connection.execute("select woken from depth where queue = ?", (queue,)).fetchone()
    return 0 if row is None else row[0]

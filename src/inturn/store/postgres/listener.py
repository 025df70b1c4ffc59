"""Waking up: one connection that listens, and everyone who waits for a queue, or for ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterator, Sequence
from math import inf
from uuid import uuid4

from inturn.model.errors import StoreError
from inturn.store.postgres.faults import GONE
from inturn.store.postgres.pool import Connection, Pool
from inturn.store.postgres.sql import query

CHANNEL = "inturn"
ENDS = ""
"""What stands for a queue when jobs have ended that somebody waits for."""
SAY_AGAIN_SECONDS = 10.0
RETRY_SECONDS = 1.0


class Listener:
    """Listens for lanes that wake. A hint only: whoever waits looks again after a while anyway."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._connection: Connection | None = None
        self._opening = asyncio.Lock()
        self._waiters: dict[asyncio.Event, frozenset[str]] = {}
        self._failed_at = float("-inf")
        self.ends_heard = 0

    @contextlib.contextmanager
    def hearing(self, queues: Collection[str]) -> Iterator[asyncio.Event]:
        """Set an event when one of the queues is notified, from this moment on.

        A caller that waits again and again loses nothing in between: nothing is heard before the
        next begins, unless something is awaited first.
        """
        woken = asyncio.Event()
        self._waiters[woken] = frozenset(queues)
        try:
            yield woken
        finally:
            del self._waiters[woken]

    async def wait(self, woken: asyncio.Event, *, timeout_seconds: float) -> bool:
        """Sleep until an event of ``hearing`` is set, or the time is up."""
        try:
            await self.listen()
            async with asyncio.timeout(max(timeout_seconds, 0)):
                await woken.wait()
        except TimeoutError:
            pass
        return woken.is_set()

    async def close(self) -> None:
        """Stop listening, and let nobody wait for what will not be heard."""
        for woken in self._waiters:
            woken.set()
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*GONE):
                await asyncio.wait_for(connection.close(), timeout=5.0)

    async def listen(self) -> None:
        """Have a connection that listens; without one, waiting is plain polling."""
        async with self._opening:
            if self._pool.pooler:
                return
            if self._connection is not None and not self._connection.is_closed():
                return
            now = asyncio.get_running_loop().time()
            if now - self._failed_at < RETRY_SECONDS:
                return
            connection: Connection | None = None
            try:
                connection = await self._pool.connect()
                await connection.add_listener(CHANNEL, self._hear)
            except (StoreError, *GONE):
                self._failed_at = now
            except BaseException:  # cancelled, perhaps between the two
                if connection is not None:
                    connection.terminate()
                raise
            else:
                self._connection = connection
                await self._catch_up(connection)

    async def _catch_up(self, connection: Connection) -> None:
        """Wake those for whose queues something was said while nobody listened."""
        for woken, queues in list(self._waiters.items()):
            if await connection.fetchval(query("claimable"), list(queues)):
                woken.set()

    def _hear(self, _connection: object, _pid: int, _channel: str, queue: str) -> None:
        self.ends_heard += queue == ENDS
        for woken, queues in self._waiters.items():
            if queue in queues:
                woken.set()


class Ends:
    """Hears that jobs have ended, as long as it has said of which queues it wants to be told.

    A settle tells of its jobs. What ends in other ways, such as a cancelled job, is not told of: so
    a wait that has heard nothing counts as if it had.
    """

    def __init__(self, pool: Pool, listener: Listener) -> None:
        self._pool, self._listener = pool, listener
        self._id = uuid4()
        self._said_at: dict[str, float] = {}
        self._unheard = 0

    async def wait(self, queues: Sequence[str], seen: int, timeout_seconds: float) -> int:
        """Sleep until jobs may have ended since ``seen``; return what to give the next time."""
        with self._listener.hearing([ENDS]) as woken:
            if self._mark() == seen:
                await self._listener.listen()  # before somebody is asked to tell
                await self._say(queues)
                await self._listener.wait(woken, timeout_seconds=timeout_seconds)
            self._unheard += self._mark() == seen
            return self._mark()

    def _mark(self) -> int:
        return self._listener.ends_heard + self._unheard

    async def _say(self, queues: Sequence[str]) -> None:
        now = asyncio.get_running_loop().time()
        news = [one for one in queues if self._said_at.get(one, -inf) < now - SAY_AGAIN_SECONDS]
        if news and not self._pool.pooler:
            said = {queue: at for queue, at in self._said_at.items() if queue in queues}
            await self._pool.run(
                lambda connection: connection.execute(query("await_ended"), self._id, news)
            )
            self._said_at = said | dict.fromkeys(news, now)

"""Connections to PostgreSQL: taken from a pool, given back, made anew when the server was away."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg

from inturn.model.errors import InvalidStoreURL, StoreBusy, StoreUnavailable
from inturn.store.postgres.faults import GONE, TOLD, TOLD_CONNECTING, crossed, is_crossed

Answer = TypeVar("Answer")
Connection = Any
"""An asyncpg connection, from the pool or the caller's own."""

PAUSE_SECONDS_FIRST = 0.05
PAUSE_SECONDS_MAX = 1.0
CLOSE_SECONDS_MAX = 10.0
RELEASE_SECONDS_MAX = 1.0  # for a connection to come back from a call that was cancelled
AT_HAND_MAX = 4
"""So many connections are kept ready for the next verb, spared the pool's own accounts, which cost
a verb about 0.06 ms: a task, a proxy and two turns of the loop. The rest goes back to the pool,
which closes what is idle."""


CONNECTIONS_MAX = 10_000


# What every verb goes through is a class with two methods: a generator takes several times as long.


class Working:
    """Counts what is under way."""

    def __init__(self) -> None:
        self._count = 0
        self._quiet: asyncio.Event | None = None  # made by whoever waits for it

    def __enter__(self) -> None:
        self._count += 1

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if not self._count and self._quiet is not None:
            self._quiet.set()
            self._quiet = None

    async def is_over(self) -> None:
        """Wait until nothing is under way."""
        while self._count:  # a verb of two parts begins the second at once
            self._quiet = self._quiet or asyncio.Event()
            await self._quiet.wait()


class Lent:
    """A connection in someone's hands, for as long as a block lasts."""

    def __init__(self, lender: Pool) -> None:
        self._lender = lender

    async def __aenter__(self) -> Connection:
        self._pool, self._connection = await self._lender.take()
        return self._connection

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            await self._lender.release_failed(self._pool, self._connection)
        elif not self._lender.keep(self._pool, self._connection):
            await self._pool.release(self._connection)


class Patience:
    """The patience of one verb whose first try has failed: until a time, by ``monotonic``."""

    def __init__(self, ends_at: float) -> None:
        self._ends_at = ends_at
        self._pause = PAUSE_SECONDS_FIRST
        self._cut: Exception | None = None  # from a try that was sent, and may be committed

    def pause_after(self, error: Exception, *, is_closed: bool) -> float:
        """Return how many seconds to wait before the next try; raise what the caller is to hear if
        there is none.

        ``is_closed``: nobody wants connections any more.
        """
        with TOLD:
            if isinstance(error, StoreBusy):
                raise self._cut or error
            if isinstance(error, GONE):
                self._cut = error
                if self._is_over or is_closed:
                    raise error
                pause, self._pause = self._pause, min(self._pause * 2, PAUSE_SECONDS_MAX)
                return pause
            if isinstance(error, asyncpg.PostgresError) and is_crossed(error):
                if self._is_over:
                    raise crossed(error) from error
                # Each at another moment, or those who crossed would cross again.
                return random.uniform(0, self._pause)
            raise error

    @property
    def _is_over(self) -> bool:
        return monotonic() + self._pause > self._ends_at


class Pool:
    """A few connections, and the patience to find the server again.

    ``patience_seconds``: how long a verb goes on trying while the server is away.
    """

    def __init__(
        self,
        url: str,
        *,
        connections_max: int = 10,
        statement_seconds: float = 30.0,
        lock_seconds: float = 10.0,
        patience_seconds: float = 30.0,
        pooler: bool = False,
    ) -> None:
        address = read_url(url)
        self.url, self.pooler = address.url, pooler or address.pooler
        self.patience_seconds = patience_seconds
        self._connections_max = address.connections_max or connections_max
        self._settings = {
            "application_name": address.application_name,
            "statement_timeout": str(int(statement_seconds * 1000)),
            "lock_timeout": str(int(lock_seconds * 1000)),
            "default_transaction_isolation": "read committed",
            "jit": "off",
        }
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self.trouble: str | None = None  # why the server could not be reached, at the last try
        self._at_hand: list[Connection] = []
        self._failed: set[int] = set()  # server processes whose verb failed or was cancelled
        self._waiting = 0
        self.working = Working()

    async def open(self) -> None:
        """Make the pool and one connection."""
        if self._pool is None:
            with TOLD_CONNECTING:
                self._pool = await self._make()

    async def _make(self) -> asyncpg.Pool[asyncpg.Record]:
        try:
            pool = await asyncpg.create_pool(
                self.url,
                min_size=0,  # else it fills up by itself, and complains while the server is away
                max_size=self._connections_max,
                server_settings={} if self.pooler else self._settings,
                statement_cache_size=0 if self.pooler else 100,
                max_inactive_connection_lifetime=60.0,
                reset=self._reset_failed,
            )
            self._at_hand.append(await pool.acquire())
            return pool
        except ValueError as error:  # asyncpg's word for an address or an option it cannot use
            raise InvalidStoreURL(
                f"the store's address, or an option of it, cannot be used: {error}."
            ) from error

    async def close(self) -> None:
        """Let what is under way end, for a while, and give the connections up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self.working.is_over()
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                while self._at_hand:
                    await pool.release(self._at_hand.pop())
                await asyncio.wait_for(pool.close(), CLOSE_SECONDS_MAX)
            except (TimeoutError, *GONE):
                pool.terminate()

    async def connect(self) -> Connection:
        """Return a connection of its own, outside the pool, for listening."""
        with TOLD_CONNECTING:
            named = {"application_name": self._settings["application_name"]}
            return await asyncpg.connect(self.url, server_settings=named)

    def connection(self) -> Lent:
        """Lend a connection."""
        return Lent(self)

    async def take(self) -> tuple[asyncpg.Pool[asyncpg.Record], Connection]:
        """Take a connection that lies at hand, or else wait for one of the pool's."""
        if (pool := self._pool) is None:
            raise StoreUnavailable("the store is not open. Call open() first.")
        while self._at_hand:
            connection = self._at_hand.pop()
            if _lives(connection):
                return pool, connection
            await pool.release(connection)
        self._waiting += 1
        try:
            async with asyncio.timeout(self.patience_seconds):
                return pool, await pool.acquire()
        except TimeoutError as error:
            if pool.get_size() - pool.get_idle_size() < self._connections_max:
                raise  # the server is silent
            raise self._busy() from error
        finally:
            self._waiting -= 1

    def _busy(self) -> StoreBusy:
        return StoreBusy(
            f"all {self._connections_max} connections of this store are in use, and none came back "
            f"within {self.patience_seconds:g} s. Nothing was sent; try again. Keep transactions "
            f"short, call no other verb of the store inside one, or give the store a larger "
            f"connections_max (in its URL: ?connections_max=50)."
        )

    def keep(self, pool: asyncpg.Pool[asyncpg.Record], connection: Connection) -> bool:
        """Lay a connection at hand for the next verb, unless it is to go back to its pool."""
        is_wanted = pool is self._pool and len(self._at_hand) < AT_HAND_MAX
        if not is_wanted or self._waiting:
            return False
        self._at_hand.append(connection)
        return True

    async def release_failed(
        self, pool: asyncpg.Pool[asyncpg.Record], connection: Connection
    ) -> None:
        """Give back a connection on which something failed, or was cancelled."""
        # A server that is silent does not answer either that it has given up the statement.
        with contextlib.suppress(*GONE):
            self._failed.add(connection.get_server_pid())
            await pool.release(connection, timeout=RELEASE_SECONDS_MAX)

    async def _reset_failed(self, connection: Connection) -> None:
        """End what a cancelled verb left open: asyncpg prepares a statement without ending the
        transaction that the server began for it. After any other verb nothing is to be reset, and a
        reset would be one round trip more.
        """
        if self._failed and (pid := connection.get_server_pid()) in self._failed:
            self._failed.discard(pid)
            await connection.reset()

    @contextlib.asynccontextmanager
    async def begun(self) -> AsyncIterator[Connection]:
        """Lend a connection in a transaction; one that turns out to be dead is replaced first.

        What the caller's statements set for the session ends with the transaction.
        """
        first: BaseException | None = None
        with self.working:
            connection, begun = await self._patiently(self._begin)
            try:
                async with begun:
                    try:
                        yield connection
                    except BaseException as error:
                        first = error
                        raise
                    await connection.execute("select")  # fails if the transaction was given up
            except BaseException:
                if first is not None:
                    # What the way back met with does not matter, and what it came from does.
                    raise first  # noqa: B904
                with TOLD:
                    raise

    async def apart(self, verb: Callable[[Connection], Awaitable[Answer]]) -> Answer:
        """Run one verb on a connection outside the pool: for whoever holds one of the pool's, and
        might wait for ever for a second. Goes on to its end when the caller is cancelled: a
        driver that is interrupted while it connects leaves a noise in the log.
        """

        async def attempt() -> Answer:
            connection = await asyncpg.connect(
                self.url,
                server_settings={} if self.pooler else self._settings,
                statement_cache_size=0,
            )
            try:
                return await verb(connection)
            finally:
                await connection.close()

        async def whole() -> Answer:
            with self.working:
                return await self._patiently(attempt)

        errand = asyncio.get_running_loop().create_task(whole())
        errand.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return await asyncio.shield(errand)

    async def run(self, verb: Callable[[Connection], Awaitable[Answer]]) -> Answer:
        """Run one verb in one statement or transaction; if the server went away, run it again, and
        also if it crossed another's work in such a way that nothing of it was done.

        Only for verbs that may be repeated: reads, a claim (a lost one's lease runs out), a settle
        (a second one finds the lease gone), an enqueue that looks for its ids first.
        """

        async def attempt() -> Answer:
            async with self.connection() as connection:
                return await verb(connection)

        with self.working:
            return await self._patiently(attempt)

    async def _begin(self) -> tuple[Connection, contextlib.AsyncExitStack]:
        """Take a connection and begin; nothing has happened yet, so it may be done again."""
        async with contextlib.AsyncExitStack() as stack:
            connection = await stack.enter_async_context(self.connection())
            stack.push_async_callback(_reset, connection)
            await stack.enter_async_context(connection.transaction(isolation="read_committed"))
            return connection, stack.pop_all()

    async def _patiently(self, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        """Try until it works or patience is at its end, while the server is away or busy."""
        began, patience = monotonic(), None
        while True:
            try:
                answer = await attempt()
            except Exception as error:
                self.trouble = _trouble_of(error, self.trouble)
                if patience is None:
                    patience = Patience(began + self.patience_seconds)
                pause = patience.pause_after(error, is_closed=self._pool is None)
            else:
                self.trouble = None
                return answer
            await asyncio.sleep(pause)


def _lives(connection: Connection) -> bool:
    """Say whether a connection is open, and was not taken back by its pool because it is not."""
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:
        return False


async def _reset(connection: Connection) -> None:
    """Undo what a caller's statements set for the session."""
    with contextlib.suppress(*GONE):
        if connection.is_in_transaction():  # a commit was interrupted before it was sent
            await connection.execute("rollback")
        await connection.reset()


def _trouble_of(error: Exception, before: str | None) -> str | None:
    """Return why the server cannot be reached, by an error; what was known before, if that is not
    what it tells.
    """
    if isinstance(error, GONE):
        return str(error) or type(error).__name__
    return None if isinstance(error, asyncpg.PostgresError) else before  # one that it answered


class Address(NamedTuple):
    """What the URL of a store says: to asyncpg, and to us."""

    url: str  # as asyncpg takes it
    pooler: bool  # it says ``pooler=transaction``
    connections_max: int | None
    application_name: str


def read_url(url: str) -> Address:
    """Take our own options out of a URL; what is left is asyncpg's to check."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidStoreURL(f"the store's address cannot be read: {error}.") from error
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    pooler, connections_max = options.pop("pooler", None), options.pop("connections_max", None)
    if pooler not in (None, "transaction"):
        raise InvalidStoreURL(
            f"the store's address has pooler={pooler!r}, which may only be transaction."
        )
    if pooler or connections_max is not None:
        url = urlunsplit(parts._replace(query=urlencode(options)))
    name = options.get("application_name") or "inturn"
    return Address(url, pooler is not None, _number_of_connections(connections_max), name)


def _number_of_connections(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= CONNECTIONS_MAX):
        raise InvalidStoreURL(
            f"the store's address has connections_max={text!r}; it is a number from 1 to "
            f"{CONNECTIONS_MAX}."
        )
    return int(text)

"""Empty stores for runs, one after another: in memory, or one PostgreSQL database emptied."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from inturn.model.clock import ManualClock
from inturn.store.address import connect
from inturn.store.store import Store
from tests.postgres_server import EMPTY_ALL_TABLES

SQLITE = "sqlite"


class Hands:
    """A clock for a store that outlives a run: it shows the time of the run's own clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()

    def now(self) -> datetime:
        return self.clock.now()


class Stores:
    """Gives out empty stores. A PostgreSQL database is migrated once and emptied each time."""

    def __init__(self, url: str = SQLITE) -> None:
        self._url = url
        self._hands = Hands()
        self._postgres: Store | None = None

    @asynccontextmanager
    async def empty(self) -> AsyncIterator[tuple[Store, ManualClock]]:
        """Lend a store without jobs, and the clock it goes by."""
        if self._url == SQLITE:
            clock = ManualClock()
            store = connect("sqlite:///:memory:", clock=clock)
            await store.open()
            try:
                yield store, clock
            finally:
                await store.close()
            return
        store = await self._open_postgres()
        async with store.transaction() as transaction:
            await transaction.execute(EMPTY_ALL_TABLES)
        self._hands.clock = ManualClock()
        yield store, self._hands.clock

    async def close(self) -> None:
        store, self._postgres = self._postgres, None
        if store is not None:
            await store.close()

    async def _open_postgres(self) -> Store:
        if self._postgres is None:
            self._postgres = connect(self._url, clock=self._hands)
            await self._postgres.migrate()
            await self._postgres.open()
        return self._postgres

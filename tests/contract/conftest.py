"""A store of each sort, opened on a clock that tests move by hand, and checked when they end.

What is dear is made once a process and shared: the event loop, the PostgreSQL database, two stores
on it with their warm connections, and a SQLite file with empty tables that every test copies.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from inturn.model.clock import ManualClock
from inturn.store.address import connect
from inturn.store.store import Store
from tests.postgres_server import EMPTY_ALL_TABLES, DatabaseServer


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "corrupts: leaves the store's tables broken on purpose, so they are not checked"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the contract tests on one event loop, so that stores can be shared."""
    for one in items:
        if one.path.parent == Path(__file__).parent and pytest_asyncio.is_async_test(one):
            one.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


class SharedClock:
    """The clock that shared stores are opened with: it tells the time of the test that runs."""

    def __init__(self) -> None:
        self.hands = ManualClock()

    def now(self) -> datetime:
        return self.hands.now()


class Shared:
    """What all contract tests of this process have together."""

    def __init__(self, directory: Path) -> None:
        self.clock = SharedClock()
        self.empty_file = directory / "empty.db"
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._stores: dict[tuple[str, str], Store] = {}

    async def sqlite_url(self, path: Path) -> str:
        """Return the address of a file of its own with empty tables."""
        if not self.empty_file.exists():
            await migrate(f"sqlite:///{self.empty_file}")
        shutil.copy(self.empty_file, path)
        return f"sqlite:///{path}"

    async def postgres_url(self, url: str) -> str:
        """Return the address of the one database, with empty tables."""
        if self._connection is None:
            await migrate(url)
            self._connection = await asyncpg.connect(url)
        await self._connection.execute(EMPTY_ALL_TABLES)
        return url

    async def postgres_store(self, url: str, which: str) -> Store:
        """Return the one or the other store on the one database, opened before."""
        if (url, which) not in self._stores:
            store = self._stores[url, which] = connect(url, clock=self.clock)
            await store.open()
        return self._stores[url, which]

    async def close(self) -> None:
        for store in self._stores.values():
            await store.close()
        if self._connection is not None:
            await self._connection.close()


async def migrate(url: str) -> None:
    store = connect(url)
    try:
        await store.migrate()
    finally:
        await store.close()


@pytest.fixture(scope="session")
def contract_database(postgres_server: DatabaseServer) -> Iterator[str]:
    """One database for all contract tests of this process, emptied between them."""
    with postgres_server.fresh_database() as url:
        yield url


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shared]:
    shared = Shared(tmp_path_factory.mktemp("contract"))
    yield shared
    await shared.close()


@pytest.fixture
def clock(shared: Shared) -> ManualClock:
    shared.clock.hands = ManualClock()
    return shared.clock.hands


@pytest.fixture(params=["sqlite", "postgres"])
def store_kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def empty_url(store_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that was never migrated."""
    if store_kind == "sqlite":
        return f"sqlite:///{tmp_path / 'new.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest_asyncio.fixture(loop_scope="session")
async def store_url(
    store_kind: str, shared: Shared, request: pytest.FixtureRequest, tmp_path: Path
) -> str:
    """The address of a store that is migrated and empty."""
    if store_kind == "sqlite":
        return await shared.sqlite_url(tmp_path / "work.db")
    return await shared.postgres_url(request.getfixturevalue("contract_database"))


@pytest_asyncio.fixture(loop_scope="session")
async def store(
    store_kind: str,
    store_url: str,
    shared: Shared,
    clock: ManualClock,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Store]:
    """A store, open and empty. When the test ends its tables must hold together."""
    must_hold = request.node.get_closest_marker("corrupts") is None
    async for store in opened(store_kind, store_url, shared, "one"):
        yield store
        if must_hold:
            assert await store.check() == []


@pytest_asyncio.fixture(loop_scope="session")
async def other_store(
    store: Store, store_kind: str, store_url: str, shared: Shared
) -> AsyncIterator[Store]:
    """Another store object on the same tables, with connections of its own."""
    async for other in opened(store_kind, store_url, shared, "other"):
        yield other


async def opened(kind: str, url: str, shared: Shared, which: str) -> AsyncIterator[Store]:
    """Yield an open store: a shared one on PostgreSQL, or one of the test's own, to be closed."""
    if kind == "postgres":
        yield await shared.postgres_store(url, which)
        return
    store = connect(url, clock=shared.clock)
    try:
        await store.open()
        yield store
    finally:
        await store.close()

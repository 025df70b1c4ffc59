"""A migrated database for each test, a store on it, and producers that hold transactions open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
import pytest_asyncio

from inturn.store.postgres.store import PostgresStore
from tests.concurrency.producer import Opening, OpenProducer
from tests.concurrency.support import sound
from tests.postgres_server import EMPTY_ALL_TABLES, DatabaseServer


async def migrate(url: str) -> None:
    store = PostgresStore(url)
    try:
        await store.migrate()
    finally:
        await store.close()


@pytest.fixture(scope="session")
def migrated(postgres_server: DatabaseServer) -> Iterator[str]:
    """The url of a database with inturn's tables, for all tests of this folder in turn."""
    with postgres_server.fresh_database() as url:
        asyncio.run(migrate(url))
        yield url


@pytest.fixture
def database(migrated: str) -> str:
    """The url of a database with inturn's tables, all of them empty."""
    with psycopg.connect(migrated, autocommit=True) as connection:
        connection.execute(EMPTY_ALL_TABLES)
    return migrated


@pytest_asyncio.fixture
async def store(database: str) -> AsyncIterator[PostgresStore]:
    """A PostgreSQL store. When the test ends its tables must hold together, unmended."""
    store = PostgresStore(database)
    await store.open()
    try:
        yield store
        await sound(store)
    finally:
        await store.close()


@pytest_asyncio.fixture
async def producer(database: str, store: PostgresStore) -> AsyncIterator[Opening]:
    """Begin a transaction on a connection of its own: ``await producer("repeatable_read")``."""
    made: list[OpenProducer] = []

    async def begin(isolation: str = "read_committed") -> OpenProducer:
        made.append(await OpenProducer.begin(database, store, isolation))
        return made[-1]

    yield begin
    for one in made:
        await one.close()

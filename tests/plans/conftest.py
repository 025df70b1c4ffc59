"""One database with a million waiting jobs, for all tests of this folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from inturn.store.postgres.store import PostgresStore
from tests.plans.backlog import SETTINGS, fill
from tests.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def backlog() -> Iterator[str]:
    """The url of a database with a million waiting jobs; about ten seconds to make."""

    async def migrate(url: str) -> None:
        store = PostgresStore(url)
        await store.migrate()
        await store.close()

    with PostgresServer(settings=SETTINGS) as server:
        url = server.url("postgres")
        asyncio.run(migrate(url))
        fill(url)
        yield url


@pytest_asyncio.fixture
async def connection(backlog: str) -> AsyncIterator[Any]:
    """A connection as the store's pool makes them."""
    connection = await asyncpg.connect(backlog, server_settings={"jit": "off"})
    yield connection
    await connection.close()

"""A store on a database of its own, for the traces that are played on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from inturn.store.postgres.store import PostgresStore


@pytest_asyncio.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """A migrated store on an empty database."""
    store = PostgresStore(postgres_url)
    try:
        await store.migrate()
        yield store
    finally:
        await store.close()

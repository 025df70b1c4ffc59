"""The PostgreSQL that is measured: our own with default durability, or one that is named."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator

import asyncpg

from tests.postgres_server import DatabaseServer, PostgresServer

SETTINGS = (
    "server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method",
    "shared_buffers", "max_wal_size", "autovacuum", "jit",
)  # fmt: skip


@contextlib.contextmanager
def server() -> Iterator[DatabaseServer]:
    """Start a server, or use the one in INTURN_TEST_POSTGRES."""
    if url := os.environ.get("INTURN_TEST_POSTGRES"):
        yield DatabaseServer(url)
    else:
        with PostgresServer() as own:
            yield own


@contextlib.contextmanager
def empty_database(on: DatabaseServer) -> Iterator[str]:
    """Make a database for one run of one side. Nothing is left to write of those before."""
    with on.fresh_database() as url:
        asyncio.run(_execute(url, "checkpoint"))
        os.sync()
        yield url


def tidy(url: str) -> None:
    """Vacuum and analyze a filled database, as autovacuum would have by and by."""
    asyncio.run(_execute(url, "vacuum analyze"))


def settings(on: DatabaseServer) -> dict[str, str]:
    """Return what the server says about its version and durability."""

    async def read(url: str) -> dict[str, str]:
        connection = await asyncpg.connect(url)
        try:
            return {name: await connection.fetchval(f"show {name}") for name in SETTINGS}
        finally:
            await connection.close()

    with on.fresh_database() as url:
        return asyncio.run(read(url))


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        with contextlib.suppress(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)
    finally:
        await connection.close()

"""An application's own queries, as PostgreSQL runs them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import asyncpg

from inturn.model.errors import BadInput, ConstraintBroken
from inturn.store.postgres.pool import Connection
from inturn.store.queries import Query, Row, decode, statement


async def run(
    connection: Connection, query: Query[Row], given: Mapping[str, Any], now: datetime | None
) -> list[Row]:
    """Run a query and return its rows."""
    found = statement(query, "postgres")
    values = found.values(query, {"now": now, **given} if "now" in found.parameters else given)
    try:
        rows = await connection.fetch(found.text, *values.values())
    except asyncpg.IntegrityConstraintViolationError as error:
        raise ConstraintBroken(f"PostgreSQL refuses a row of {query}: {error}.") from error
    except (asyncpg.SyntaxOrAccessError, asyncpg.DataError) as error:
        if isinstance(error, asyncpg.InsufficientPrivilegeError):
            raise
        raise BadInput(f"PostgreSQL cannot run {query}: {error}.") from error
    return decode(query, list(rows[0].keys()) if rows else [], rows)


async def read(
    connection: Connection, query: Query[Row], given: Mapping[str, Any], now: datetime | None
) -> list[Row]:
    """Run a query that may not write."""
    try:
        async with connection.transaction(readonly=True):
            return await run(connection, query, given, now)
    except asyncpg.ReadOnlySQLTransactionError as error:
        raise BadInput(
            f"{query} writes, and read() never does. Run it in a transaction."
        ) from error

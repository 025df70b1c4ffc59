"""A worker's turn: settling and claiming in one call of a SQL function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

from inturn.model.lease import Claim, Wish
from inturn.store.postgres.claim import claims_of
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.sql import query


async def turn(connection: Connection, settled: Sequence[Any], wish: Wish) -> list[Claim]:
    """Settle, and lease jobs of a queue if that can be done at once.

    Nothing claimed does not say that there is nothing: then claim by itself.
    """
    try:
        rows = await connection.fetch(
            query("turn"),
            *settled,
            wish.queue,
            wish.jobs_max,
            wish.lease_seconds,
            wish.kinds,
            wish.suspects_max,
        )
    except asyncpg.ProgramLimitExceededError:  # the answer is too large, and nothing was written
        await connection.execute(query("settle"), *settled, False)
        return []
    return claims_of(wish.queue, rows)

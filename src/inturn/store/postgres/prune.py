"""Pruning: small steps, each a transaction of its own, until there is nothing left to take."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import asyncpg

from inturn.store.postgres.pool import Pool
from inturn.store.store import Pruned

LANES_TOGETHER = 1_000
ROWS_TOGETHER = 5_000
"""What a step takes at most: milliseconds to tenths of a second, far below any time limit."""


async def prune(pool: Pool, now: datetime | None) -> Pruned:
    """Take away what is past its time; leave the rest to another prune that is at it."""
    taken: Counter[str] = Counter()
    await pool.run(
        lambda connection: connection.execute(
            "select inturn.admit(1000, coalesce($1::timestamptz, clock_timestamp()))", now
        )
    )
    if await _prune_lanes(pool, now, taken) and await _prune_expired(pool, now, taken):
        await _fold_stats(pool, now)
    return Pruned(**taken)


async def _prune_lanes(pool: Pool, now: datetime | None, taken: Counter[str]) -> bool:
    """Go over all lanes; say whether nobody else was at it."""
    through = 0
    while through is not None:
        row = await _step(
            pool,
            "select * from inturn.prune_lanes($1, $2, $3, $4)",
            through,
            LANES_TOGETHER,
            ROWS_TOGETHER,
            now,
        )
        if row is None:
            return False
        through, jobs, lanes = row
        taken.update(jobs=jobs, lanes=lanes)
    return True


async def _prune_expired(pool: Pool, now: datetime | None, taken: Counter[str]) -> bool:
    """Take all that has expired; say whether nobody else was at it."""
    more = True
    while more:
        row = await _step(pool, "select * from inturn.prune_expired($1, $2)", ROWS_TOGETHER, now)
        if row is None:
            return False
        *_, more = row
        taken.update({name: count for name, count in row.items() if name != "more"})
    return True


async def _fold_stats(pool: Pool, now: datetime | None) -> None:
    """Make one row a minute and kind out of what settles have added."""
    minutes = await pool.run(
        lambda connection: connection.fetch("select * from inturn.minutes_to_fold($1)", now)
    )
    for queue, minute_at in minutes:
        row = await _step(pool, "select inturn.fold_stats($1, $2)", queue, minute_at)
        if row is None or not row[0]:
            return


async def _step(pool: Pool, statement: str, *arguments: object) -> asyncpg.Record | None:
    """Run one step and return what it says: nothing, if someone else prunes."""
    row: asyncpg.Record | None = await pool.run(
        lambda connection: connection.fetchrow(statement, *arguments)
    )
    return row

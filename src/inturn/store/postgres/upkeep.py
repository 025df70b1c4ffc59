"""Upkeep: verifying the tables, the sweep that every worker makes now and then, and pruning."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import asyncpg

from inturn.model.lease import Pruned
from inturn.store.postgres.pool import Connection, Pool
from inturn.store.postgres.sql import called, query

LANES_TOGETHER = 1_000
ROWS_TOGETHER = 5_000
"""What a step takes at most: milliseconds to tenths of a second, far below any time limit."""

STAT_MINUTES = 7 * 24 * 60
FAULTS_MAX = 20  # that are told of each sort

CHECKS = (
    "check_lanes",
    "check_log",
    "check_rounds",
    "check_leases",
    "check_runs",
    "check_places",
    "check_waits",
    "check_parked",
    "check_attempts",
    "check_marks",
    "check_queues",
    "check_starts",
)


async def check(connection: Connection) -> list[str]:
    """Return a sentence for each thing that does not hold, at most a few of a sort.

    All queries see one snapshot, so that work going on meanwhile is never taken for a fault.
    """
    said: list[str] = []
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        for name in CHECKS:
            statement = f"select said from ({query(name)}) found(said) limit {FAULTS_MAX}"
            said += [row[0] for row in await connection.fetch(statement)]
    return said


async def prune(pool: Pool, now: datetime | None) -> Pruned:
    """Take away what is past its time, in small steps, each a transaction of its own. If another
    prune is at it, leave the rest to that.
    """
    taken: Counter[str] = Counter()
    await pool.run(lambda connection: connection.execute(query("sweep"), now, STAT_MINUTES))
    if await _prune_lanes(pool, now, taken):
        await _prune_expired(pool, now, taken)
    return Pruned(**taken)


async def _prune_lanes(pool: Pool, now: datetime | None, taken: Counter[str]) -> bool:
    """Go over all lanes; say whether nobody else was at it."""
    through = 0
    while through is not None:
        row = await _step(
            pool,
            called("select * from inturn.prune_lanes($1, $2, $3, $4)"),
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


async def _prune_expired(pool: Pool, now: datetime | None, taken: Counter[str]) -> None:
    """Take all that has expired."""
    more = True
    while more:
        row = await _step(
            pool, called("select * from inturn.prune_expired($1, $2)"), ROWS_TOGETHER, now
        )
        if row is None:
            return
        *_, more = row
        taken.update({name: count for name, count in row.items() if name != "more"})


async def _step(pool: Pool, statement: str, *arguments: object) -> asyncpg.Record | None:
    """Run one step and return what it says: nothing, if someone else prunes."""
    row: asyncpg.Record | None = await pool.run(
        lambda connection: connection.fetchrow(statement, *arguments)
    )
    return row

"""Verifying the tables: every invariant a query that finds nothing while it holds."""

from __future__ import annotations

from inturn.store.postgres.pool import Connection
from inturn.store.postgres.sql import query

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
)


async def check(connection: Connection) -> list[str]:
    """Return a sentence for each thing that does not hold, at most 20 of a sort.

    All queries see one snapshot, so that work going on meanwhile is never taken for a fault.
    """
    said: list[str] = []
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        for name in CHECKS:
            said += [row[0] for row in await connection.fetch(query(name))]
    return said

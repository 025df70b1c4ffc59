"""How far running jobs are, as their handlers say."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from inturn.model.errors import LeaseLost
from inturn.model.lease import Lease
from inturn.policy.settlement import keepable
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.sql import query


async def progress(
    connection: Connection,
    *,
    lease: Lease,
    job: UUID,
    fraction: float,
    note: str,
    now: datetime | None,
) -> None:
    """Write down how far a leased job is. Raises ``LeaseLost``."""
    said = (lease.token, lease.lane, job, float(fraction), keepable(note), now)
    if await connection.fetchval(query("progress"), *said) is None:
        raise LeaseLost([lease.token])

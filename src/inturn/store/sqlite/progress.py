"""How far running jobs are, as their handlers say."""

from __future__ import annotations

import sqlite3
from uuid import UUID

from inturn.model.errors import LeaseLost
from inturn.model.job import Progress
from inturn.model.lease import Lease
from inturn.policy.settlement import keepable
from inturn.store.sqlite.leases import is_held
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.times import Micros, time_of


def progress(
    connection: sqlite3.Connection,
    now: Micros,
    *,
    lease: Lease,
    job: UUID,
    fraction: float,
    note: str,
) -> None:
    """Write down how far a leased job is. Raises ``LeaseLost``."""
    if not is_held(connection, lease):
        raise LeaseLost([lease.token])
    said = (job.bytes, lease.token, float(fraction), keepable(note), now)
    connection.execute(query("progress"), said)


def said_of(connection: sqlite3.Connection, id: bytes, token: int) -> Progress | None:
    """Return what was said of a job under the lease that it has now."""
    row = connection.execute(
        "select fraction, note, said_at from progress where job = ? and token = ?", (id, token)
    ).fetchone()
    return None if row is None else Progress(fraction=row[0], note=row[1], at=time_of(row[2]))

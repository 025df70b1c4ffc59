"""Leases: prolonged, held or lost, and how far the jobs under them are."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from uuid import UUID

import msgspec

from inturn.model.errors import LeaseLost
from inturn.model.job import Progress
from inturn.model.lease import Lease
from inturn.policy.settlement import keepable
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.rows import Micros, micros_of_seconds, time_of


def extend(
    connection: sqlite3.Connection, now: Micros, leases: Sequence[Lease], *, lease_seconds: float
) -> list[Lease]:
    """Prolong leases from now on; return those that are lost."""
    until = now + micros_of_seconds(lease_seconds)
    lost = [lease for lease in leases if not is_held(connection, lease)]
    tokens = {lease.token for lease in leases}
    connection.executemany(
        "update lease set until = ? where token = ?", [(until, token) for token in sorted(tokens)]
    )
    return lost


def settled(connection: sqlite3.Connection, token: int, count: int) -> None:
    """Take what was settled off a lease; with nothing left under it, it goes."""
    lowered = connection.execute(
        "update lease set unsettled = unsettled - ? where token = ? and unsettled > ?",
        (count, token, count),
    )
    if lowered.rowcount == 0:
        connection.execute("delete from lease where token = ?", (token,))


def lanes_under(lanes: str) -> list[int]:
    """Return the keyed lanes that a lease's row names."""
    return msgspec.json.decode(lanes, type=list[int])


def is_held(connection: sqlite3.Connection, lease: Lease) -> bool:
    """Say whether a lease still stands: its token, and its lane under it."""
    place: tuple[int, ...]
    if lease.lane is None:
        statement, place = "select 1 from parked where token = ?", (lease.token,)
    elif lease.key is None:
        statement, place = (
            "select 1 from run where token = ? and lane = ?",
            (lease.token, lease.lane),
        )
    else:
        statement, place = (
            "select 1 from lane where token = ? and id = ?",
            (lease.token, lease.lane),
        )
    return connection.execute(statement, place).fetchone() is not None


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

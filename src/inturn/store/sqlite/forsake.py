"""Jobs that wait for what will not be: buried, or, if they were to react to it, cancelled."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from uuid import UUID

from inturn.store.sqlite.queries import query
from inturn.store.sqlite.rows import Micros


def forsake(connection: sqlite3.Connection, now: Micros, job: bytes, *, ended: str) -> None:
    """Bury what waits for a job that will never be done, such as one "cancelled by ann".

    What waits for those stays blocked: they are dead letters, and can be retried.
    """
    statement = "select job from waits where on_job = ? and not on_failure"
    for (other,) in connection.execute(statement, (job,)).fetchall():
        _bury(connection, now, other, job, ended)


def spare(connection: sqlite3.Connection, now: Micros, jobs: Iterable[bytes]) -> None:
    """Cancel reactions that wait for nothing any more, unless one is to run: nothing has failed.

    What waits for them to be done is noted, for ``bury_noted``.
    """
    for job in jobs:
        if connection.execute("select 1 from reacting where job = ?", (job,)).fetchone() is None:
            reason = "cancelled, for nothing has failed of what it was to react to"
            connection.execute(query("cancel_set_aside"), (now, "inturn", reason, job))
            connection.execute("delete from blocked where id = ?", (job,))
            connection.execute(
                "insert or ignore into reacting "
                "select job from waits where on_job = ? and not on_failure",
                (job,),
            )


def bury_noted(connection: sqlite3.Connection, now: Micros, jobs: Iterable[bytes]) -> None:
    """Bury those of the jobs that wait for a reaction which was not needed."""
    for job in jobs:
        row = connection.execute(
            "select waits.on_job, coalesce(cancelled.reason, 'cancelled') "
            "from waits left join cancelled on cancelled.id = waits.on_job "
            "where waits.job = ? and not waits.on_failure "
            "order by cancelled.id is null, waits.on_job limit 1",
            (job,),
        ).fetchone()
        if row is not None:
            _bury(connection, now, job, *row)


def _bury(
    connection: sqlite3.Connection, now: Micros, job: bytes, on_job: bytes, ended: str
) -> None:
    reason = f"waits for job {UUID(bytes=on_job)}, which was {ended}"
    connection.execute(query("bury_blocked"), (reason, now, job))
    connection.execute("delete from blocked where id = ?", (job,))
    connection.execute("delete from waits where job = ?", (job,))

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
    reason = f"waits for job {UUID(bytes=job)}, which was {ended}"
    statement = "select job from waits where on_job = ? and not on_failure"
    waiting = connection.execute(statement, (job,)).fetchall()
    for (other,) in waiting:
        connection.execute(query("bury_blocked"), (reason, now, other))
        connection.execute("delete from blocked where id = ?", (other,))
        connection.execute("delete from waits where job = ?", (other,))


def spare(connection: sqlite3.Connection, now: Micros, jobs: Iterable[bytes]) -> None:
    """Cancel reactions that wait for nothing any more, and are not to run: nothing has failed."""
    for job in jobs:
        if connection.execute("select 1 from reacting where job = ?", (job,)).fetchone() is None:
            reason = "cancelled, for nothing has failed of what it was to react to"
            connection.execute(query("cancel_set_aside"), (now, "inturn", reason, job))
            connection.execute("delete from blocked where id = ?", (job,))
            forsake(connection, now, job, ended=reason)

"""Jobs that wait for others: let in when those are done, buried when those will never be."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from uuid import UUID

from inturn.store.sqlite import queue_row
from inturn.store.sqlite.append import append
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.rows import WHOLE_JOB, WholeJob
from inturn.store.sqlite.times import Micros


def somebody_waits(connection: sqlite3.Connection) -> bool:
    """Say whether any job waits for another, so that most settles need not look for whom."""
    return connection.execute("select 1 from waits limit 1").fetchone() is not None


def admit_after_run(connection: sqlite3.Connection, lane: int, first: int, last: int) -> None:
    """Let in what waited for the done jobs at these positions of a lane."""
    done = connection.execute(query("awaited_in_run"), (lane, first, last)).fetchall()
    for (job,) in done:
        admit_after(connection, job)


def admit_after(connection: sqlite3.Connection, done: bytes) -> None:
    """Let in what waited for a done job and now waits for no other."""
    waiting = connection.execute("select job from waits where on_job = ?", (done,)).fetchall()
    if not waiting:
        return
    connection.execute("delete from waits where on_job = ?", (done,))
    statement = "select 1 from waits where job = ? limit 1"
    admit(
        connection,
        [job for (job,) in waiting if not connection.execute(statement, (job,)).fetchone()],
    )


def admit(connection: sqlite3.Connection, jobs: Sequence[bytes]) -> int:
    """Let blocked jobs join their lanes, in the order they were accepted; return how many."""
    rows = []
    for job in jobs:
        rows += connection.execute(
            f"select {WHOLE_JOB} from blocked where id = ?", (job,)
        ).fetchall()
    whole = sorted((WholeJob(*row) for row in rows), key=lambda job: (job.enqueued_at, job.id))
    connection.executemany("delete from blocked where id = ?", [(job.id,) for job in whole])
    append(connection, whole, queue_row.all_made(connection, (job.queue for job in whole)))
    return len(whole)


def forsake(connection: sqlite3.Connection, now: Micros, job: bytes, *, ended: str) -> None:
    """Bury what waits for a job that will never be done, such as one "cancelled by ann".

    What waits for those stays blocked: they are dead letters, and can be retried.
    """
    reason = f"waits for job {UUID(bytes=job)}, which was {ended}"
    waiting = connection.execute("select job from waits where on_job = ?", (job,)).fetchall()
    for (other,) in waiting:
        connection.execute(query("bury_blocked"), (reason, now, other))
        connection.execute("delete from blocked where id = ?", (other,))
        connection.execute("delete from waits where job = ?", (other,))

"""Jobs that wait for others: let in when those are done, buried when those will never be.

A reaction (``after_failed``) is let in when one of those fails, and cancelled when all are done.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from inturn.store.sqlite.lane_row import append
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queues import made_queues
from inturn.store.sqlite.rows import WHOLE_JOB, Micros, WholeJob

WAITS_TOGETHER = 1_000


def somebody_waits(connection: sqlite3.Connection) -> bool:
    """Say whether any job waits for another, so that most settles need not look for whom."""
    return connection.execute("select 1 from waits limit 1").fetchone() is not None


def awaited_in_run(
    connection: sqlite3.Connection, lane: int, first: int, last: int
) -> Iterator[bytes]:
    """Yield the jobs at these positions of a lane for which others wait."""
    for (job,) in connection.execute(query("awaited_in_run"), (lane, first, last)).fetchall():
        yield job


def unblock(connection: sqlite3.Connection, now: Micros, done: Iterable[bytes]) -> None:
    """Let in what waited for done jobs and now waits for no other: a thousand of their waits at
    most, so that the writer is held for a moment only. The rest is for ``recheck``.
    """
    room = WAITS_TOGETHER
    for on_job in done:
        statement = "select job, on_failure from waits where on_job = ? order by job limit ?"
        waiting = connection.execute(statement, (on_job, room + 1)).fetchall()
        if len(waiting) > room:
            connection.execute("insert or ignore into admitting (job) values (?)", (on_job,))
            connection.execute(query("wake_waiting"), (on_job,))
            del waiting[room:]
        room -= len(waiting)
        connection.executemany(
            "delete from waits where on_job = ? and job = ?", [(on_job, job) for job, _ in waiting]
        )
        statement = "select 1 from waits where job = ? limit 1"
        free = [one for one in waiting if not connection.execute(statement, one[:1]).fetchone()]
        admit(connection, [job for job, on_failure in free if not on_failure])
        spare(connection, now, [job for job, on_failure in free if on_failure])


def recheck(connection: sqlite3.Connection, now: Micros) -> None:
    """Let in reactions to what has failed, and more of what waited for a job that is done, if a
    settle has left some. Bury what waits for a reaction that was not needed.
    """
    statement = "select job from reacting order by job limit ?"
    reacting = connection.execute(statement, (WAITS_TOGETHER,)).fetchall()
    if reacting:
        connection.executemany("delete from reacting where job = ?", reacting)
        connection.executemany("delete from waits where job = ? and on_failure", reacting)
        bury_noted(connection, now, [job for (job,) in reacting])
        admit(connection, [job for (job,) in reacting])
    left = connection.execute("select job from admitting limit ?", (WAITS_TOGETHER,)).fetchall()
    if left:
        connection.executemany("delete from admitting where job = ?", left)
        unblock(connection, now, [job for (job,) in left])


def admit(connection: sqlite3.Connection, jobs: Sequence[bytes]) -> int:
    """Let blocked jobs join their lanes, in the order they were accepted; return how many."""
    rows = []
    for job in jobs:
        rows += connection.execute(
            f"select {WHOLE_JOB} from blocked where id = ?", (job,)
        ).fetchall()
    whole = sorted((WholeJob(*row) for row in rows), key=lambda job: (job.enqueued_at, job.id))
    connection.executemany("delete from blocked where id = ?", [(job.id,) for job in whole])
    append(connection, whole, made_queues(connection, (job.queue for job in whole)))
    return len(whole)


def forsake(connection: sqlite3.Connection, now: Micros, job: bytes, *, ended: str) -> None:
    """Bury what waits for a job that will never be done, such as one "cancelled by ann".

    What waits for those stays blocked: they are dead letters, and can be retried.
    """
    statement = "select job from waits where on_job = ? and not on_failure"
    for (other,) in connection.execute(statement, (job,)).fetchall():
        bury_blocked(connection, now, other, job, ended)


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
            bury_blocked(connection, now, job, *row)


def bury_blocked(
    connection: sqlite3.Connection, now: Micros, job: bytes, on_job: bytes, ended: str
) -> None:
    """Bury a blocked job, because one that it waits for has ended so."""
    reason = f"waits for job {UUID(bytes=on_job)}, which was {ended}"
    connection.execute(query("bury_blocked"), (reason, now, job))
    connection.execute("delete from blocked where id = ?", (job,))
    connection.execute("delete from waits where job = ?", (job,))

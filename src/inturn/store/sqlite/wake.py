"""Waking what is due: lanes whose retry has come, and parked jobs whose time has come."""

from __future__ import annotations

import sqlite3

from inturn.model import bounds
from inturn.store.sqlite.append import append
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queue_row import QueueRow
from inturn.store.sqlite.rows import WHOLE_JOB, WholeJob, rank
from inturn.store.sqlite.times import SECOND, Micros


def wake(connection: sqlite3.Connection, now: Micros, queue: QueueRow) -> None:
    """Give what is due its place in line."""
    connection.execute(
        "update lane set ready_at = null, rank_at = iif(paused_at is null, "
        "waiting_since - cast(round(priority * ?) as integer), null) "
        "where queue = ? and ready_at <= ?",
        (queue.aging_seconds * SECOND, queue.name, now),
    )
    due = connection.execute(query("due_parked"), (queue.name, now, bounds.DUE_JOBS_MAX)).fetchall()
    if not due:
        return
    connection.executemany(
        "update parked set rank_at = ? where id = ?",
        [
            (rank(run_at, priority, queue.aging_seconds), id)
            for id, delayed, priority, run_at in due
            if not delayed
        ],
    )
    _join(connection, queue, [id for id, delayed, *_ in due if delayed])


def _join(connection: sqlite3.Connection, queue: QueueRow, delayed: list[bytes]) -> None:
    """Let delayed jobs join their lanes, in the order they became due."""
    whole = []
    for id in delayed:
        row = connection.execute(f"select {WHOLE_JOB} from parked where id = ?", (id,)).fetchone()
        whole.append(WholeJob(*row))
    connection.executemany("delete from parked where id = ?", [(id,) for id in delayed])
    append(connection, whole, {queue.name: queue})

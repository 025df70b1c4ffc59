"""Pruning: finished history past its time, idle lanes, and what has expired."""

from __future__ import annotations

import sqlite3

from inturn.store.protocol import Pruned
from inturn.store.sqlite import queue_row
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queue_row import QueueRow
from inturn.store.sqlite.times import SECOND, Micros, micros_of_seconds

_DAY: Micros = 86_400 * SECOND
STATS_KEPT: Micros = 7 * _DAY
WORKERS_KEPT: Micros = _DAY
JOBS_TOGETHER = 10_000


def mark(connection: sqlite3.Connection, now: Micros) -> None:
    """Write down how far every lane is finished now."""
    connection.execute(query("mark_finished"), (now,))


def prune_jobs(connection: sqlite3.Connection, now: Micros) -> int:
    """Delete some of the done jobs whose marks are old enough; return how many.

    Fewer than ``JOBS_TOGETHER`` are the last. More at once would hold up everyone who writes.
    """
    room = JOBS_TOGETHER
    for queue in queue_row.every(connection):
        before = now - micros_of_seconds(queue.keep_done_seconds)
        for lane, position in connection.execute(
            query("old_marks"), (queue.name, before)
        ).fetchall():
            room -= _count(connection, query("prune_jobs"), lane, position, room)
            if room <= 0:
                return JOBS_TOGETHER
            connection.execute(query("prune_marks"), (lane, position))
    return JOBS_TOGETHER - room


def prune_rest(connection: sqlite3.Connection, now: Micros, *, jobs: int) -> Pruned:
    """Delete idle lanes and what has expired; ``jobs`` is how many were deleted before."""
    lanes = cancelled = 0
    for queue in queue_row.every(connection):
        before = now - micros_of_seconds(queue.keep_done_seconds)
        lanes += _prune_lanes(connection, queue)
        cancelled += _count(connection, query("prune_cancelled"), queue.name, before)
    connection.execute("delete from progress where token not in (select token from lease)")
    return Pruned(
        jobs=jobs,
        lanes=lanes,
        cancelled=cancelled,
        results=_count(connection, "delete from result where until <= ?", now),
        dedupes=_count(connection, "delete from dedupe where until <= ?", now),
        stats=_count(connection, "delete from stat where minute_at < ?", now - STATS_KEPT),
        workers=_count(connection, "delete from worker where seen_at < ?", now - WORKERS_KEPT),
    )


def _prune_lanes(connection: sqlite3.Connection, queue: QueueRow) -> int:
    """Delete lanes that hold nothing and hold nothing up."""
    idle = connection.execute(query("idle_lanes"), (queue.name,)).fetchall()
    connection.executemany("delete from tail where lane = ?", idle)
    connection.executemany("delete from lane where id = ?", idle)
    return len(idle)


def _count(connection: sqlite3.Connection, statement: str, *arguments: object) -> int:
    return connection.execute(statement, arguments).rowcount

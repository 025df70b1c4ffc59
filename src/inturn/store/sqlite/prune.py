"""Pruning: finished history past its time, idle lanes, and what has expired.

In slices of so many lanes, rows and bytes, each a transaction: nobody who writes waits for long.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import NamedTuple

from inturn.store.sqlite.queries import query
from inturn.store.sqlite.rows import SECOND, Micros

_DAY: Micros = 86_400 * SECOND
STATS_KEPT: Micros = 7 * _DAY
WORKERS_KEPT: Micros = _DAY
LANES_TOGETHER = 1_000
ROWS_TOGETHER = 500
BYTES_TOGETHER = 1024 * 1024  # tens of milliseconds; twice that is what others may wait


class Slice(NamedTuple):
    """What a slice took, as ``Pruned`` names it, and behind which lane to go on; None: the end."""

    taken: Counter[str]
    after: int | None


def mark(connection: sqlite3.Connection, now: Micros, *, after: int) -> Slice:
    """Write down how far lanes are finished now."""
    last = _last_lane(connection, "lane", "id", after)
    if last is not None:
        connection.execute(query("mark_finished"), (now, after, last))
    return Slice(Counter(), last)


def prune_jobs(connection: sqlite3.Connection, now: Micros, *, after: int) -> Slice:
    """Delete done jobs whose marks are old enough."""
    taken: Counter[str] = Counter()
    last = _last_lane(connection, "mark", "lane", after)
    if last is None:
        return Slice(taken, None)
    rows_left, bytes_left = ROWS_TOGETHER, BYTES_TOGETHER
    for lane, position in connection.execute(query("old_marks"), (now, after, last)).fetchall():
        asked = (lane, position, rows_left, bytes_left)
        through, rows, size = connection.execute(query("jobs_to_prune"), asked).fetchone()
        if rows:
            statement = "delete from job where lane = ? and position <= ?"
            connection.execute(statement, (lane, through))
        connection.execute(query("prune_marks"), (lane, position))
        taken["jobs"] += rows
        rows_left, bytes_left = rows_left - rows, bytes_left - size
        if rows_left <= 0 or bytes_left <= 0:
            return Slice(taken, lane - 1)
    return Slice(taken, last)


def prune_lanes(connection: sqlite3.Connection, now: Micros, *, after: int) -> Slice:
    """Delete lanes that hold nothing and hold nothing up."""
    last = _last_lane(connection, "lane", "id", after)
    if last is None:
        return Slice(Counter(), None)
    idle = connection.execute(query("idle_lanes"), (after, last)).fetchall()
    connection.executemany("delete from tail where lane = ?", idle)
    connection.executemany("delete from lane where id = ?", idle)
    return Slice(Counter(lanes=len(idle)), last)


def prune_expired(connection: sqlite3.Connection, now: Micros, *, after: int) -> Slice:
    """Delete cancelled jobs past their queue's time, and results and dedupe keys past theirs."""
    asked = (now, ROWS_TOGETHER, BYTES_TOGETHER)
    taken = Counter(
        cancelled=_count(connection, query("prune_cancelled"), *asked),
        results=_count(connection, query("prune_results"), *asked),
        dedupes=_count(connection, query("prune_dedupes"), now, ROWS_TOGETHER),
    )
    return Slice(taken, 0 if taken.total() else None)


def prune_rest(connection: sqlite3.Connection, now: Micros, *, after: int) -> Slice:
    """Delete what there is little of: statistics, workers, and what was said of jobs that ended."""
    connection.execute("delete from progress where token not in (select token from lease)")
    taken = Counter(
        stats=_count(connection, "delete from stat where minute_at < ?", now - STATS_KEPT),
        workers=_count(connection, "delete from worker where seen_at < ?", now - WORKERS_KEPT),
    )
    return Slice(taken, None)


STEPS = (mark, prune_jobs, prune_lanes, prune_expired, prune_rest)


def _last_lane(connection: sqlite3.Connection, table: str, column: str, after: int) -> int | None:
    """Return up to which lane a slice goes; None if there is no lane behind the one before."""
    statement = f"select min({column}) from {table} where {column} > ?"
    [first] = connection.execute(statement, (after,)).fetchone()
    return None if first is None else first + LANES_TOGETHER - 1


def _count(connection: sqlite3.Connection, statement: str, *arguments: object) -> int:
    return connection.execute(statement, arguments).rowcount

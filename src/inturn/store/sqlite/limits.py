"""The limits of a queue over all workers: how many jobs a claim may start now."""

from __future__ import annotations

import sqlite3

from inturn.store.sqlite.queues import QueueRow
from inturn.store.sqlite.rows import Micros, micros_of_seconds


def places(connection: sqlite3.Connection, now: Micros, queue: QueueRow) -> int:
    """Return how many jobs of a queue with limits may start now."""
    left: list[int] = []
    if queue.running_max is not None:
        statement = "select coalesce(sum(unsettled), 0) from lease where queue = ? and limited"
        left.append(queue.running_max - connection.execute(statement, (queue.name,)).fetchone()[0])
    if queue.rate is not None and queue.rate_seconds is not None:
        since = now - micros_of_seconds(queue.rate_seconds)
        left.append(queue.rate - queue.starts + _pass(connection, queue.name, since))
    return max(0, min(left))


def start(connection: sqlite3.Connection, now: Micros, queue: QueueRow, jobs: int) -> None:
    """Note that jobs of a queue with a rate start now."""
    if queue.rate is not None and jobs:
        connection.execute(
            "insert into start (queue, started_at, jobs) values (?, ?, ?) "
            "on conflict (queue, started_at) do update set jobs = jobs + excluded.jobs",
            (queue.name, now, jobs),
        )
        connection.execute(
            "update queue set starts = starts + ? where name = ?", (jobs, queue.name)
        )


def _pass(connection: sqlite3.Connection, queue: str, since: Micros) -> int:
    """Forget the starts that the window has passed; return how many they were."""
    passed = connection.execute(
        "delete from start where queue = ? and started_at <= ? returning jobs", (queue, since)
    ).fetchall()
    count: int = sum(jobs for [jobs] in passed)
    if count:
        connection.execute("update queue set starts = starts - ? where name = ?", (count, queue))
    return count

"""Dropping a queue: its history in slices, then the queue, if nothing in it is unfinished."""

from __future__ import annotations

import sqlite3

from inturn.model.errors import QueueInUse, UnknownQueue
from inturn.store.sqlite.queues import find_queue
from inturn.store.sqlite.rows import Micros

ROWS_TOGETHER = 2_000
_OF_QUEUE = "(select id from lane where queue = :queue)"
_HISTORY = (
    f"delete from result where job in (select id from job where lane in {_OF_QUEUE} limit :rows)",
    f"delete from job where (lane, position) in "
    f"(select lane, position from job where lane in {_OF_QUEUE} limit :rows)",
    "delete from cancelled where id in (select id from cancelled where queue = :queue limit :rows)",
    "delete from dedupe where (queue, dedupe) in "
    "(select queue, dedupe from dedupe where queue = :queue limit :rows)",
)
_REST = (
    f"delete from mark where lane in {_OF_QUEUE}",
    f"delete from tail where lane in {_OF_QUEUE}",
    "delete from lane where queue = :queue",
    "delete from stat where queue = :queue",
    "delete from start where queue = :queue",
    "delete from queue where name = :queue",
    "delete from depth where queue = :queue",
)


def drop_queue(connection: sqlite3.Connection, now: Micros, queue: str) -> bool:
    """Take away a slice of a queue's history; without any, the queue. Say whether that is done."""
    if find_queue(connection, queue) is None:
        raise UnknownQueue(queue)
    counted = connection.execute(
        "select waiting, scheduled + retrying + fresh, blocked, dead from depth where queue = ?",
        (queue,),
    ).fetchone()
    statement = "select coalesce(sum(unsettled), 0) from lease where queue = ?"
    [running] = connection.execute(statement, (queue,)).fetchone()
    if running or any(counted):
        raise QueueInUse(queue, running=running, others=sum(counted))
    arguments = {"queue": queue, "rows": ROWS_TOGETHER}
    if sum(connection.execute(statement, arguments).rowcount for statement in _HISTORY):
        return False
    for statement in _REST:
        connection.execute(statement, arguments)
    return True

"""Reading queues, lanes, workers and statistics: what an operator watches."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from inturn.model.lane import LaneState, LaneView, QueueSettings, QueueStatus
from inturn.model.worker import Stat, WorkerView
from inturn.policy.limits import limit_reached
from inturn.store.paging import Page, decode_cursor, encode_cursor
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.sql import FUNCTIONS, query


async def queues(connection: Connection, now: datetime) -> list[QueueStatus]:
    """Return every queue's settings, depth and oldest age, by name."""
    rows = await connection.fetch(query("queues"), now, [])
    if large := [row["name"] for row in rows if row["many"]]:
        await connection.execute(query("recount"), large)
        rows = await connection.fetch(query("queues"), now, large)
    return [_queue_status(row) for row in rows]


async def lanes(
    connection: Connection,
    queue: str,
    *,
    key: str | None = None,
    cursor: str | None = None,
    rows_max: int = 100,
) -> Page[LaneView]:
    """List a queue's lanes in the order they were made, or the one lane of a key."""
    after = 0 if cursor is None else decode_cursor(cursor, int)[0]
    rows = await connection.fetch(query("lanes"), queue, key, after, rows_max + 1)
    found = tuple(_lane_view(queue, row) for row in rows[:rows_max])
    return Page(rows=found, cursor=encode_cursor(found[-1].id) if len(rows) > rows_max else None)


async def beat(connection: Connection, worker: WorkerView, now: datetime | None) -> None:
    """Write down that a worker lives, and what it takes."""
    await connection.execute(
        query("beat"),
        worker.id,
        worker.host,
        worker.pid,
        worker.version,
        list(worker.queues),
        list(worker.kinds),
        worker.running,
        worker.process,
        now,
        FUNCTIONS,
    )


async def workers(connection: Connection, now: datetime | None) -> list[WorkerView]:
    """Return the workers that were heard of lately, the latest first."""
    rows = await connection.fetch(query("workers"), now)
    names = ("queues", "kinds", "duties")
    return [WorkerView(**dict(row, **{name: tuple(row[name]) for name in names})) for row in rows]


async def stats(connection: Connection, queue: str, since: datetime) -> list[Stat]:
    """Return what was settled per kind and minute, oldest minute first."""
    return [
        Stat(**dict(row, queue=queue, durations=tuple(row["durations"])))
        for row in await connection.fetch(query("stats"), queue, since)
    ]


def _queue_status(row: Any) -> QueueStatus:
    return QueueStatus(
        name=row["name"],
        settings=settings_of(row),
        gate=row["gate"],
        paused_by=row["paused_by"],
        waiting=row["waiting"],
        running=row["running"],
        scheduled=row["scheduled"],
        retrying=row["retrying"],
        blocked=row["blocked"],
        dead=row["dead"],
        lanes=row["lanes"],
        halted=row["halted"],
        oldest_at=row["oldest_at"],
        limit_reached=reached(row),
    )


def settings_of(row: Any) -> QueueSettings:
    """Return a queue's settings from its row."""
    return msgspec.convert(
        {name: row[name] for name in QueueSettings.__struct_fields__}, QueueSettings
    )


def reached(row: Any) -> str | None:
    """Say which limit of a queue is reached, or nothing."""
    return limit_reached(settings_of(row), running=row["running"], starts=row["starts"])


def _lane_view(queue: str, row: Any) -> LaneView:
    return LaneView(**dict(row, queue=queue, state=LaneState(row["state"])))

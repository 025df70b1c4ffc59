"""Queues: how they behave, what they hold, holding them, and how far their gates are open."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import msgspec

from inturn.model.errors import UnknownQueue
from inturn.model.lane import Gate, OnDead, QueueSettings, QueueStatus
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.rows import SECOND, Micros, time_or_none

_COLUMNS = (
    "name, gate, on_dead, depth_max, lane_depth_max, keep_done_seconds, aging_seconds, "
    "paused_at, paused_by"
)


def configure(
    connection: sqlite3.Connection, now: Micros, queue: str, settings: QueueSettings
) -> None:
    """Set how a queue behaves, making it if need be."""
    before = made_queue(connection, queue)
    connection.execute(
        "update queue set on_dead = ?, depth_max = ?, lane_depth_max = ?, keep_done_seconds = ?, "
        "aging_seconds = ? where name = ?",
        (
            str(OnDead(settings.on_dead)),
            settings.depth_max,
            settings.lane_depth_max,
            settings.keep_done_seconds,
            settings.aging_seconds,
            queue,
        ),
    )
    if settings.aging_seconds != before.aging_seconds:
        _rank_again(connection, queue, settings.aging_seconds)


def _rank_again(connection: sqlite3.Connection, queue: str, aging_seconds: float) -> None:
    """Work out every rank of a queue with another ageing."""
    step = aging_seconds * SECOND
    connection.execute(
        "update lane set rank_at = waiting_since - cast(round(priority * ?) as integer) "
        "where queue = ? and rank_at is not null",
        (step, queue),
    )
    connection.execute(
        "update parked set rank_at = run_at - cast(round(priority * ?) as integer) "
        "where queue = ? and rank_at is not null",
        (step, queue),
    )


def pause_queue(connection: sqlite3.Connection, now: Micros, queue: str, *, by: str) -> None:
    """Hold a queue, making it if need be. What runs goes on running."""
    made_queue(connection, queue)
    connection.execute(
        "update queue set paused_at = coalesce(paused_at, ?), paused_by = ? where name = ?",
        (now, by, queue),
    )


def resume_queue(connection: sqlite3.Connection, now: Micros, queue: str) -> None:
    """Let a paused queue go on, making it if need be."""
    made_queue(connection, queue)
    connection.execute(
        "update queue set paused_at = null, paused_by = null where name = ?", (queue,)
    )


def queues(connection: sqlite3.Connection, now: Micros) -> list[QueueStatus]:
    """Return every queue's settings, depth and oldest age, whatever the backlog."""
    running = dict(connection.execute("select queue, sum(unsettled) from lease group by queue"))
    return [
        _status(connection, now, queue, running.get(queue.name, 0))
        for queue in every_queue(connection)
    ]


def _status(
    connection: sqlite3.Connection, now: Micros, queue: QueueRow, running: int
) -> QueueStatus:
    row = connection.execute(query("queue_status"), {"queue": queue.name, "now": now}).fetchone()
    waiting, lanes, halted, resting, scheduled, due, retrying, fresh, blocked, dead, oldest = row
    return QueueStatus(
        name=queue.name,
        settings=settings_of(queue),
        gate=queue.gate,
        paused_by=queue.paused_by,
        waiting=waiting - halted - resting + fresh + due,
        running=running,
        scheduled=scheduled - due,
        retrying=retrying + resting,
        blocked=blocked,
        dead=dead,
        lanes=lanes,
        halted=halted,
        oldest_at=time_or_none(oldest),
    )


def settings_of(queue: QueueRow) -> QueueSettings:
    """Return a queue's settings."""
    return QueueSettings(
        on_dead=OnDead(queue.on_dead),
        depth_max=queue.depth_max,
        lane_depth_max=queue.lane_depth_max,
        keep_done_seconds=queue.keep_done_seconds,
        aging_seconds=queue.aging_seconds,
    )


def open_gate(connection: sqlite3.Connection, now: Micros, queue: str, *, round: int) -> int:
    """Open the gate as far as a round (it never closes); return the highest open round."""
    gate = max(made_queue(connection, queue).gate, round)
    connection.execute("update queue set gate = ? where name = ? and gate < ?", (gate, queue, gate))
    return gate


def advance_gate(connection: sqlite3.Connection, now: Micros, queue: str) -> Gate:
    """Open the next round that has jobs if nothing of the open rounds is unfinished."""
    row = find_queue(connection, queue)
    if row is None:
        raise UnknownQueue(queue)
    arguments = {"queue": queue, "gate": row.gate, "halts": row.on_dead == "halt"}
    unfinished: int = connection.execute(query("unfinished"), arguments).fetchone()[0]
    if unfinished:
        return Gate(round=row.gate, advanced=False, unfinished=unfinished, exhausted=False)
    following: int | None = connection.execute(query("next_round"), arguments).fetchone()[0]
    if following is None:
        return Gate(round=row.gate, advanced=False, unfinished=0, exhausted=True)
    connection.execute("update queue set gate = ? where name = ?", (following, queue))
    return Gate(round=following, advanced=True, unfinished=0, exhausted=False)


class QueueRow(msgspec.Struct, frozen=True):
    """The columns of a queue."""

    name: str
    gate: int
    on_dead: str
    depth_max: int | None
    lane_depth_max: int | None
    keep_done_seconds: float
    aging_seconds: float
    paused_at: Micros | None
    paused_by: str | None


def find_queue(connection: sqlite3.Connection, name: str) -> QueueRow | None:
    """Return a queue, or nothing."""
    statement = f"select {_COLUMNS} from queue where name = ?"
    row = connection.execute(statement, (name,)).fetchone()
    return None if row is None else QueueRow(*row)


def made_queue(connection: sqlite3.Connection, name: str) -> QueueRow:
    """Return a queue, making it if need be."""
    found = find_queue(connection, name)
    if found is None:
        connection.execute("insert into queue (name) values (?)", (name,))
        found = find_queue(connection, name)
        assert found is not None
    return found


def made_queues(connection: sqlite3.Connection, names: Iterable[str]) -> dict[str, QueueRow]:
    """Return queues by name, making those that are not there."""
    return {name: made_queue(connection, name) for name in sorted(set(names))}


def every_queue(connection: sqlite3.Connection) -> list[QueueRow]:
    """Return every queue by name."""
    rows = connection.execute(f"select {_COLUMNS} from queue order by name")
    return [QueueRow(*row) for row in rows]

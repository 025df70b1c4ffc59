"""Queues: how they behave, what they hold, holding them, and how far their gates are open."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from inturn.model.errors import QueueInUse, UnknownQueue
from inturn.model.lane import Gate, QueueSettings, QueueStatus
from inturn.policy.limits import (
    changed_settings,
    limit_reached,
    rate_window_seconds,
    with_changes,
)
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.rows import SECOND, Micros, micros_of_seconds, time_or_none

_COLUMNS = (
    "name, gate, on_dead, depth_max, lane_depth_max, keep_done_seconds, aging_seconds, "
    "paused_at, paused_by, replay, suspects, running_max, rate, rate_seconds, local, starts"
)


def configure(
    connection: sqlite3.Connection, now: Micros, queue: str, changes: Mapping[str, Any]
) -> QueueSettings:
    """Change some of a queue's settings, making it if need be; return all of them."""
    before = made_queue(connection, queue)
    settings = with_changes(settings_of(before), changes)
    assigned = ", ".join(f"{name} = ?" for name in QueueSettings.__struct_fields__)
    statement = f"update queue set {assigned} where name = ?"
    connection.execute(statement, (*msgspec.structs.astuple(settings), queue))
    if settings.is_limited or before.is_limited:
        _limit(connection, queue, settings)
    if settings.aging_seconds != before.aging_seconds:
        _rank_again(connection, queue, settings.aging_seconds)
    return settings


def _limit(connection: sqlite3.Connection, queue: str, settings: QueueSettings) -> None:
    """Count what runs now, or no longer; forget starts where there is no rate; wake who waits."""
    connection.execute("update lease set limited = ? where queue = ?", (settings.is_limited, queue))
    if settings.rate is None:
        connection.execute("delete from start where queue = ?", (queue,))
        connection.execute("update queue set starts = 0 where name = ?", (queue,))
    connection.execute("update depth set woken = woken + 1 where queue = ?", (queue,))


def declare(
    connection: sqlite3.Connection, now: Micros, declared: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write the settings that code says, where it says other than it last did."""
    for queue, settings in declared.items():
        made_queue(connection, queue)
        statement = "select declared from queue where name = ?"
        [written] = connection.execute(statement, (queue,)).fetchone()
        before = msgspec.json.decode(written, type=dict[str, Any])
        configure(connection, now, queue, changed_settings(before, settings))
        connection.execute(
            "update queue set declared = ? where name = ?",
            (msgspec.json.encode(before | dict(settings)).decode(), queue),
        )


def declarations(connection: sqlite3.Connection, now: Micros) -> dict[str, dict[str, Any]]:
    """Return what code last said of each queue."""
    rows = connection.execute("select name, declared from queue where declared <> '{}'")
    return {name: msgspec.json.decode(text, type=dict[str, Any]) for name, text in rows}


def all_settings(connection: sqlite3.Connection, now: Micros) -> dict[str, QueueSettings]:
    """Return the settings of every queue."""
    return {row.name: settings_of(row) for row in every_queue(connection)}


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


def reached(connection: sqlite3.Connection, now: Micros, queue: QueueRow) -> str | None:
    """Say which limit of a queue is reached, or nothing."""
    if not queue.is_limited:
        return None
    statement = "select coalesce(sum(unsettled), 0) from lease where queue = ? and limited"
    [running] = connection.execute(statement, (queue.name,)).fetchone()
    statement = "select coalesce(sum(jobs), 0) from start where queue = ? and started_at > ?"
    since = now - micros_of_seconds(rate_window_seconds(queue.rate_seconds or 0.0))
    [starts] = connection.execute(statement, (queue.name, since)).fetchone()
    return limit_reached(settings_of(queue), running=running, starts=starts)


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
        limit_reached=reached(connection, now, queue),
    )


def settings_of(queue: QueueRow) -> QueueSettings:
    """Return a queue's settings."""
    return msgspec.convert(
        {name: getattr(queue, name) for name in QueueSettings.__struct_fields__},
        QueueSettings,
        strict=False,
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
    if connection.execute(query("unfinished"), arguments).fetchone()[0]:
        return Gate(round=row.gate, advanced=False, unfinished=True, exhausted=False)
    following: int | None = connection.execute(query("next_round"), arguments).fetchone()[0]
    if following is None:
        return Gate(round=row.gate, advanced=False, unfinished=False, exhausted=True)
    connection.execute("update queue set gate = ? where name = ?", (following, queue))
    return Gate(round=following, advanced=True, unfinished=False, exhausted=False)


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
    replay: str
    suspects: str
    running_max: int | None
    rate: int | None
    rate_seconds: float | None
    local: int
    starts: int  # within the window of its rate, and perhaps a few that the window has passed

    @property
    def is_limited(self) -> bool:
        """Whether anything limits what may run."""
        return self.running_max is not None or self.rate is not None

    @property
    def gives_one(self) -> bool:
        """Whether a claim takes one job of a key, and the next when that is settled."""
        return self.replay == "none" or self.is_limited


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

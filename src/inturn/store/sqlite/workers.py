"""Workers that were heard of lately, and what was settled per kind and minute."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import msgspec

from inturn.model import bounds
from inturn.model.worker import Stat, WorkerView
from inturn.policy.tally import Tally
from inturn.store.sqlite.rows import SECOND, Micros, time_of


def beat(connection: sqlite3.Connection, now: Micros, worker: WorkerView) -> None:
    """Say that a worker lives, what it runs, and which queues and kinds it takes."""
    connection.execute(
        "insert into worker (id, host, pid, version, queues, kinds, running, started_at, seen_at, "
        "process) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "on conflict do update set host = excluded.host, pid = excluded.pid, "
        "version = excluded.version, queues = excluded.queues, kinds = excluded.kinds, "
        "running = excluded.running, seen_at = excluded.seen_at, process = excluded.process",
        (
            worker.id,
            worker.host,
            worker.pid,
            worker.version,
            msgspec.json.encode(list(worker.queues)).decode(),
            msgspec.json.encode(list(worker.kinds)).decode(),
            worker.running,
            now,
            now,
            worker.process,
        ),
    )


def leave(connection: sqlite3.Connection, now: Micros, id: str) -> None:
    """Say that a worker has ended; what it did alone another may do."""
    connection.execute("delete from worker where id = ?", (id,))
    connection.execute("delete from duty where worker = ?", (id,))


def hold(
    connection: sqlite3.Connection, now: Micros, duty: str, worker: str, seconds: float
) -> bool:
    """Let a worker alone do a duty for so long, unless another does."""
    until = now + int(seconds * SECOND)
    done = connection.execute(
        "insert into duty (name, worker, until) values (?, ?, ?) "
        "on conflict do update set worker = excluded.worker, until = excluded.until "
        "where worker = excluded.worker or until <= ?",
        (duty, worker, until, now),
    )
    return done.rowcount > 0


def workers(connection: sqlite3.Connection, now: Micros) -> list[WorkerView]:
    """Return the workers that were heard of lately, the latest first."""
    duties: dict[str, list[str]] = {}
    held = "select worker, name from duty where until > ? order by name"
    for holder, name in connection.execute(held, (now,)):
        duties.setdefault(holder, []).append(name)
    rows = connection.execute(
        "select id, host, pid, version, queues, kinds, running, started_at, seen_at, "
        "process from worker order by seen_at desc, id"
    )
    return [
        WorkerView(
            id=id,
            host=host,
            pid=pid,
            version=version,
            queues=msgspec.json.decode(queues, type=tuple[str, ...]),
            kinds=msgspec.json.decode(kinds, type=tuple[str, ...]),
            running=running,
            duties=tuple(duties.get(id, ())),
            started_at=time_of(started_at),
            seen_at=time_of(seen_at),
            process=process,
        )
        for id, host, pid, version, queues, kinds, running, started_at, seen_at, process in rows
    ]


MINUTE: Micros = 60 * SECOND


def add_stats(connection: sqlite3.Connection, now: Micros, tallies: Iterable[Tally]) -> None:
    """Add what one call settled to its minute's rows."""
    minute = now - now % MINUTE
    for tally in tallies:
        place = (tally.queue, minute, tally.kind)
        statement = "select durations from stat where queue = ? and minute_at = ? and kind = ?"
        row = connection.execute(statement, place).fetchone()
        before = [] if row is None else msgspec.json.decode(row[0], type=list[int])
        durations = (
            [a + b for a, b in zip(tally.durations, before, strict=True)]
            if before
            else tally.durations
        )
        counts = (tally.done, tally.retried, tally.buried, tally.released, tally.seconds_sum)
        connection.execute(
            "insert into stat (queue, minute_at, kind, done, retried, buried, released, "
            "seconds_sum, durations) values (?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "on conflict do update set done = done + excluded.done, "
            "retried = retried + excluded.retried, buried = buried + excluded.buried, "
            "released = released + excluded.released, "
            "seconds_sum = seconds_sum + excluded.seconds_sum, durations = excluded.durations",
            (*place, *counts, msgspec.json.encode(durations).decode()),
        )


def stats(connection: sqlite3.Connection, now: Micros, queue: str, *, since: Micros) -> list[Stat]:
    """Return what was settled per kind and minute since a time."""
    rows = connection.execute(
        "select queue, kind, minute_at, done, retried, buried, released, seconds_sum, durations "
        "from stat where queue = ? and minute_at >= ? order by minute_at, kind",
        (queue, since - since % MINUTE),
    )
    return [
        Stat(
            queue=name,
            kind=kind,
            minute_at=time_of(minute),
            done=done,
            retried=retried,
            buried=buried,
            released=released,
            seconds_sum=seconds,
            durations=msgspec.json.decode(durations, type=tuple[int, ...]),
        )
        for name, kind, minute, done, retried, buried, released, seconds, durations in rows
    ]


def settled_lately(connection: sqlite3.Connection, now: Micros, queue: str) -> tuple[int, float]:
    """Return how many jobs of a queue were done or buried lately, and within how many seconds."""
    since = now - now % MINUTE - (bounds.DRAIN_MINUTES - 1) * MINUTE
    settled, first = connection.execute(
        "select coalesce(sum(done + buried), 0), coalesce(min(minute_at), ?) "
        "from stat where queue = ? and minute_at >= ?",
        (now, queue, since),
    ).fetchone()
    return settled, (now - first) / SECOND

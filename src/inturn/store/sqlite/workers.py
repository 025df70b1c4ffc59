"""Workers: heard of lately, and what they take."""

from __future__ import annotations

import sqlite3

import msgspec

from inturn.model.worker import WorkerView
from inturn.store.sqlite.times import Micros, time_of


def beat(connection: sqlite3.Connection, now: Micros, worker: WorkerView) -> None:
    """Say that a worker lives, what it runs, and which queues and kinds it takes."""
    connection.execute(
        "insert into worker values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
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
    """Say that a worker has ended."""
    connection.execute("delete from worker where id = ?", (id,))


def workers(connection: sqlite3.Connection, now: Micros) -> list[WorkerView]:
    """Return the workers that were heard of lately, the latest first."""
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
            started_at=time_of(started_at),
            seen_at=time_of(seen_at),
            process=process,
        )
        for id, host, pid, version, queues, kinds, running, started_at, seen_at, process in rows
    ]

"""Lists of jobs, by id, from wherever jobs of the wanted state are."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from inturn.model.job import JobState, JobView
from inturn.store.paging import Page, decode_cursor, encode_cursor
from inturn.store.sqlite import job_view
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.times import Micros

# Up to so many waiting jobs it is quicker to start from their lanes than to walk all ids.
_FEW_WAITING = 20_000

_QUERIES: dict[JobState | None, tuple[str, ...]] = {
    None: ("ids_logged", "ids_set_aside"),
    JobState.WAITING: ("ids_waiting", "ids_parked"),
    JobState.RUNNING: ("ids_running", "ids_parked"),
    JobState.RETRYING: ("ids_retrying", "ids_parked"),
    JobState.SCHEDULED: ("ids_parked",),
    JobState.BLOCKED: ("ids_blocked",),
    JobState.DEAD: ("ids_dead",),
    JobState.CANCELLED: ("ids_cancelled",),
    JobState.DONE: ("ids_done",),
}


def jobs(
    connection: sqlite3.Connection,
    now: Micros,
    *,
    states: Sequence[JobState | None],
    queue: str | None,
    kind: str | None,
    key: str | None,
    cursor: str | None,
    rows_max: int,
) -> Page[JobView]:
    """List jobs of some states (None: of any) by id, newest first."""
    [before] = decode_cursor(cursor, UUID) if cursor is not None else (UUID(int=2**128 - 1),)
    arguments = {
        "before": before.bytes,
        "queue": queue,
        "kind": kind,
        "key": key,
        "now": now,
        "rows_max": rows_max + 1,
    }
    found: set[bytes] = set()
    for one in states:
        arguments["state"] = None if one is None else str(one)
        for name in _QUERIES[one]:
            if name == "ids_waiting" and _many_wait(connection):
                name = "ids_waiting_of_many"
            found.update(id for (id,) in connection.execute(query(name), arguments))
    ids = sorted(found, reverse=True)[: rows_max + 1]
    views = tuple(job_view.job(connection, now, UUID(bytes=id)) for id in ids[:rows_max])
    more = encode_cursor(views[-1].job.id) if len(ids) > rows_max else None
    return Page(rows=views, cursor=more)


def jobs_ending(connection: sqlite3.Connection, now: Micros, *, ending: str) -> list[UUID]:
    """Return the jobs, ten at most, whose id ends with these hexadecimal digits."""
    rows = connection.execute(query("ids_ending"), {"ending": ending})
    return [UUID(bytes=id) for (id,) in rows]


def _many_wait(connection: sqlite3.Connection) -> bool:
    waiting: Any = connection.execute("select sum(waiting) from depth").fetchone()[0]
    return (waiting or 0) > _FEW_WAITING

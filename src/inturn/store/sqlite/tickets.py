"""Tickets of jobs that are in the store already."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from uuid import UUID

from inturn.model.errors import JobConflict
from inturn.model.job import JobState, NewJob, Ticket
from inturn.policy.dedupe import is_same_work
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.times import Micros


def known(
    connection: sqlite3.Connection, now: Micros, jobs: Iterable[NewJob]
) -> dict[UUID, Ticket]:
    """Return the tickets of those jobs that are in the store: sent again after a cut connection.

    Raises ``JobConflict`` for an id under which other work is stored.
    """
    largest: bytes = connection.execute(query("largest_id")).fetchone()[0]
    given: dict[UUID, Ticket] = {}
    for job in jobs:
        if job.id.bytes > largest or state_of(connection, now, job.id) is None:
            continue
        content = connection.execute(query("content"), {"id": job.id.bytes}).fetchone()
        if not is_same_work(job, *content):
            raise JobConflict(job.id)
        given[job.id] = ticket_of(connection, job.id)
    return given


def ticket_of(connection: sqlite3.Connection, job: UUID, *, duplicate: bool = False) -> Ticket:
    """Return a job's ticket, with its place if it has one in the log."""
    statement = "select lane, position from job where id = ?"
    lane, position = connection.execute(statement, (job.bytes,)).fetchone() or (None, None)
    return Ticket(id=job, lane=lane, position=position, duplicate=duplicate)


def state_of(connection: sqlite3.Connection, now: Micros, job: UUID) -> JobState | None:
    """Return where a job is, or nothing if it is nowhere."""
    state = connection.execute(query("state"), (job.bytes, now)).fetchone()[0]
    return None if state is None else JobState(state)

"""Tickets of jobs that are in the store already."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from uuid import UUID

from inturn.model.job import JobState, Ticket
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.times import Micros


def known(connection: sqlite3.Connection, now: Micros, jobs: Iterable[UUID]) -> dict[UUID, Ticket]:
    """Return the tickets of those jobs that are in the store: sent again after a cut connection."""
    largest: bytes = connection.execute(query("largest_id")).fetchone()[0]
    return {
        job: ticket_of(connection, job)
        for job in jobs
        if job.bytes <= largest and state_of(connection, now, job) is not None
    }


def ticket_of(connection: sqlite3.Connection, job: UUID, *, duplicate: bool = False) -> Ticket:
    """Return a job's ticket, with its place if it has one in the log."""
    statement = "select lane, position from job where id = ?"
    lane, position = connection.execute(statement, (job.bytes,)).fetchone() or (None, None)
    return Ticket(id=job, lane=lane, position=position, duplicate=duplicate)


def state_of(connection: sqlite3.Connection, now: Micros, job: UUID) -> JobState | None:
    """Return where a job is, or nothing if it is nowhere."""
    state = connection.execute(query("state"), (job.bytes, now)).fetchone()[0]
    return None if state is None else JobState(state)

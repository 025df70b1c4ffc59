"""Dead letters: buried, listed, retried, dropped."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from uuid import UUID

from inturn.model.job import DeadLetter
from inturn.store.paging import Asked, Page, decode_cursor, encode_cursor
from inturn.store.sqlite import lane_row
from inturn.store.sqlite.cancel import drop
from inturn.store.sqlite.lane_row import LaneRow, append
from inturn.store.sqlite.lanes import decide_lane
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queues import QueueRow, made_queue
from inturn.store.sqlite.rows import WHOLE_JOB, Micros, WholeJob, errors_of, job_of, time_of


def dead_retry(connection: sqlite3.Connection, now: Micros, jobs: Collection[UUID]) -> list[UUID]:
    """Put dead letters back with fresh attempts; return those that were dead until now."""
    letters = _letters(connection, jobs)
    for letter in letters:
        if letter.key is not None and _is_halted_on(connection, letter):
            decide_lane(connection, now, letter.queue, letter.key, decision="retry")
        else:
            _put_back(connection, now, letter)
    return [UUID(bytes=letter.id) for letter in letters]


def dead_drop(
    connection: sqlite3.Connection, now: Micros, jobs: Collection[UUID], *, by: str
) -> list[UUID]:
    """Cancel dead letters for good; return those that were dead until now."""
    letters = _letters(connection, jobs)
    for letter in letters:
        if letter.key is not None and _is_halted_on(connection, letter):
            decide_lane(connection, now, letter.queue, letter.key, decision="drop", by=by)
        else:
            drop(connection, now, letter.id, by=by)
    return [UUID(bytes=letter.id) for letter in letters]


def dead_letters(connection: sqlite3.Connection, now: Micros, asked: Asked) -> Page[DeadLetter]:
    """List dead letters, latest death first."""
    died_at, id = (
        decode_cursor(asked.cursor, int, UUID)
        if asked.cursor is not None
        else (2**63 - 1, UUID(int=2**128 - 1))
    )
    rows_max = asked.rows_max
    rows = connection.execute(
        query("dead_letters_of_queue" if asked.queue is not None else "dead_letters"),
        asked._asdict() | {"died_at": died_at, "id": id.bytes, "rows_max": rows_max + 1},
    ).fetchall()
    letters = tuple(
        DeadLetter(
            job=job_of(row),
            attempts=row[10],
            errors=errors_of(row[11]),
            reason=row[12],
            died_at=time_of(row[13]),
        )
        for row in rows[:rows_max]
    )
    if len(rows) <= rows_max:
        return Page(rows=letters)
    return Page(rows=letters, cursor=encode_cursor(rows[rows_max - 1][13], letters[-1].job.id))


def _letters(connection: sqlite3.Connection, jobs: Collection[UUID]) -> list[WholeJob]:
    """Return those of the jobs that are dead, each once, in the given order."""
    found = []
    for job in dict.fromkeys(jobs):
        statement = f"select {WHOLE_JOB} from dead where id = ?"
        row = connection.execute(statement, (job.bytes,)).fetchone()
        if row is not None:
            found.append(WholeJob(*row))
    return found


def _is_halted_on(connection: sqlite3.Connection, letter: WholeJob) -> bool:
    assert letter.key is not None
    lane = lane_row.find(connection, letter.queue, letter.key)
    return lane is not None and lane.halted_job == letter.id


def _put_back(connection: sqlite3.Connection, now: Micros, letter: WholeJob) -> None:
    """Let a dead letter wait again, at its lane's tail."""
    queue = made_queue(connection, letter.queue)
    connection.execute("delete from dead where id = ?", (letter.id,))
    connection.execute("delete from job where id = ?", (letter.id,))
    append(connection, [letter], {queue.name: queue})


def bury_head(
    connection: sqlite3.Connection,
    now: Micros,
    queue: QueueRow,
    lane: LaneRow,
    *,
    position: int,
    attempts: int,
    errors: str,
    reason: str,
) -> None:
    """Bury a keyed lane's job; the lane goes on behind it, or halts on it for a person."""
    job = bury_logged(
        connection, now, lane.id, position, attempts=attempts, errors=errors, reason=reason
    )
    lane.forget_head()
    if queue.on_dead == "halt":
        lane.take_back(position)
        lane.halted_at, lane.halted_job = now, job
    else:
        lane.take_back(position + 1)
    lane_row.refresh(connection, queue, lane)


def bury_logged(
    connection: sqlite3.Connection,
    now: Micros,
    lane: int,
    position: int,
    *,
    attempts: int,
    errors: str,
    reason: str,
) -> bytes:
    """Make a job of the log a dead letter and return its id."""
    connection.execute(query("bury_logged"), (attempts, errors, reason, now, lane, position))
    statement = "select id from job where lane = ? and position = ?"
    job: bytes = connection.execute(statement, (lane, position)).fetchone()[0]
    return job


def bury_parked(
    connection: sqlite3.Connection, now: Micros, job: bytes, *, errors: str, reason: str
) -> None:
    """Make a parked job a dead letter."""
    connection.execute(query("bury_parked"), (errors, reason, now, job))
    connection.execute("delete from parked where id = ?", (job,))

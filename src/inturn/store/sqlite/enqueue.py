"""Accepting jobs, all or none: they take the next positions of their lanes, or wait aside."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from inturn.model.errors import DedupeConflict, JobConflict, QueueFull, UnknownDependency
from inturn.model.job import JobState, NewJob, Ticket
from inturn.policy.dedupe import digest, is_same_work
from inturn.policy.limits import come_back_seconds
from inturn.store.sqlite import lane_row
from inturn.store.sqlite.dependents import spare
from inturn.store.sqlite.lane_row import append
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queues import QueueRow, made_queues
from inturn.store.sqlite.rows import WHOLE_JOB, Micros, WholeJob, micros_of_seconds
from inturn.store.sqlite.workers import settled_lately

_WHOLE = ", ".join("?" * 10)
_FAILED = (JobState.DEAD, JobState.CANCELLED)
_ENDS = (*_FAILED, JobState.DONE)


def enqueue(connection: sqlite3.Connection, now: Micros, jobs: Sequence[NewJob]) -> list[Ticket]:
    """Accept jobs that were checked before, in the given order within each key."""
    if not jobs:
        return []
    queues = made_queues(connection, (job.queue for job in jobs))
    given = known(connection, now, jobs)
    fresh = [job for job in jobs if job.id not in given]
    firsts = _dedupe(connection, now, fresh) if any(job.dedupe for job in fresh) else {}
    accepted = [job for job in fresh if job.id not in firsts]
    waits: dict[UUID, set[UUID]] = {}
    if any(job.after or job.after_failed for job in fresh):
        waits = _waits(connection, now, accepted, firsts)
    _check_bounds(connection, now, accepted, waits, queues)
    joining = [job for job in accepted if job.id not in waits and not job.delay_seconds]
    places = append(connection, [_whole(job, now) for job in joining], queues)
    for job, (lane, position) in zip(joining, places, strict=True):
        given[job.id] = Ticket(id=job.id, lane=lane, position=position)
    if len(joining) < len(accepted):
        _park(connection, now, [job for job in accepted if job.delay_seconds])
        _block(connection, now, [job for job in accepted if job.id in waits], waits)
        spare(connection, now, [job.bytes for job, others in waits.items() if not others])
    return [_ticket(connection, job.id, given, firsts) for job in jobs]


def _ticket(
    connection: sqlite3.Connection,
    job: UUID,
    given: Mapping[UUID, Ticket],
    firsts: Mapping[UUID, UUID],
) -> Ticket:
    if job in given:
        return given[job]
    if job in firsts:
        return ticket_of(connection, firsts[job], duplicate=True)
    return Ticket(id=job)


def _dedupe(
    connection: sqlite3.Connection, now: Micros, jobs: Sequence[NewJob]
) -> dict[UUID, UUID]:
    """Return the first job of each that is a duplicate; write down the keys of the others."""
    firsts: dict[UUID, UUID] = {}
    for job in jobs:
        if job.dedupe is None:
            continue
        content = digest(job.kind, job.key, job.payload)
        found = connection.execute(
            "select job, digest from dedupe where queue = ? and dedupe = ? and until > ?",
            (job.queue, job.dedupe, now),
        ).fetchone()
        if found is None:
            until = now + micros_of_seconds(job.dedupe_seconds)
            connection.execute(
                "insert or replace into dedupe (queue, dedupe, job, digest, until) "
                "values (?, ?, ?, ?, ?)",
                (job.queue, job.dedupe, job.id.bytes, content, until),
            )
        elif found[1] == content:
            firsts[job.id] = UUID(bytes=found[0])
        else:
            raise DedupeConflict(job.queue, job.dedupe, UUID(bytes=found[0]))
    return firsts


def _waits(
    connection: sqlite3.Connection,
    now: Micros,
    jobs: Sequence[NewJob],
    firsts: Mapping[UUID, UUID],
) -> dict[UUID, set[UUID]]:
    """Return, for each job that has to wait for others, those that are not done yet.

    A reaction does not wait if one of them has failed already; if all are done, it has none.
    """
    together = {job.id for job in jobs}
    named = {firsts.get(name, name) for job in jobs for name in job.waits_for()}
    states: dict[UUID, JobState | None] = dict.fromkeys(named & together)
    states |= {other: state_of(connection, now, other) for other in named - together}
    missing = {other for other in named - together if states[other] is None}
    waits: dict[UUID, set[UUID]] = {}
    cancelled: set[UUID] = set()
    for job in jobs:
        others = {firsts.get(name, name) for name in job.waits_for()}
        left = {other for other in others if states[other] is not JobState.DONE}
        if job.after:
            cancelled |= {other for other in left if states[other] is JobState.CANCELLED}
        if left if job.after else others and not any(states[one] in _FAILED for one in others):
            waits[job.id] = left
    if missing or cancelled:
        raise UnknownDependency(missing, cancelled)
    return waits


def _check_bounds(
    connection: sqlite3.Connection,
    now: Micros,
    jobs: Sequence[NewJob],
    waits: Mapping[UUID, set[UUID]],
    queues: Mapping[str, QueueRow],
) -> None:
    """Refuse jobs that would take a queue or a keyed lane past its bound."""
    for name, added in Counter(job.queue for job in jobs).items():
        depth_max = queues[name].depth_max
        if depth_max is not None:
            depth = queue_depth(connection, name)
            if depth + added > depth_max:
                raise _full(connection, now, name, None, depth, depth_max, added)
    if all(queue.lane_depth_max is None for queue in queues.values()):
        return
    joining = Counter(
        (job.queue, job.key)
        for job in jobs
        if job.key is not None and job.id not in waits and not job.delay_seconds
    )
    for (name, key), added in joining.items():
        depth_max = queues[name].lane_depth_max
        if depth_max is not None and key is not None:
            lane = lane_row.find(connection, name, key)
            depth = 0 if lane is None else lane_row.depth(connection, lane)
            if depth + added > depth_max:
                raise _full(connection, now, name, key, depth, depth_max, added)


def _full(
    connection: sqlite3.Connection,
    now: Micros,
    queue: str,
    key: str | None,
    depth: int,
    depth_max: int,
    added: int,
) -> QueueFull:
    """Return the refusal of so many jobs, with the time to come back."""
    settled, within_seconds = settled_lately(connection, now, queue)
    excess = depth + added - depth_max
    seconds = come_back_seconds(excess, settled=settled, within_seconds=within_seconds)
    return QueueFull(queue, key, depth, depth_max, added, seconds)


def queue_depth(connection: sqlite3.Connection, queue: str) -> int:
    """Return how many jobs of a queue are not started: waiting, blocked, scheduled, retrying."""
    statement = "select waiting + blocked + scheduled + retrying + fresh from depth where queue = ?"
    depth: int = connection.execute(statement, (queue,)).fetchone()[0]
    return depth


def _park(connection: sqlite3.Connection, now: Micros, jobs: Sequence[NewJob]) -> None:
    connection.executemany(
        f"insert into parked ({WHOLE_JOB}, delayed, run_at) values ({_WHOLE}, 1, ?)",
        [(*_columns(job, now), now + micros_of_seconds(job.delay_seconds)) for job in jobs],
    )


def _block(
    connection: sqlite3.Connection,
    now: Micros,
    jobs: Sequence[NewJob],
    waits: Mapping[UUID, set[UUID]],
) -> None:
    connection.executemany(
        f"insert into blocked ({WHOLE_JOB}) values ({_WHOLE})",
        [_columns(job, now) for job in jobs],
    )
    connection.executemany(
        "insert into waits (on_job, job, on_failure) values (?, ?, ?)",
        [
            (other, job.id.bytes, bool(job.after_failed))
            for job in jobs
            for other in sorted([other.bytes for other in waits[job.id]])
        ],
    )


def _columns(job: NewJob, now: Micros) -> tuple[Any, ...]:
    return (
        job.id.bytes,
        job.queue,
        job.key,
        job.kind,
        job.payload,
        job.priority,
        job.round,
        job.attempts_max,
        job.timeout_seconds,
        now,
    )


def _whole(job: NewJob, now: Micros) -> WholeJob:
    return WholeJob(*_columns(job, now))


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


def ended(
    connection: sqlite3.Connection, now: Micros, *, jobs: Iterable[UUID]
) -> dict[UUID, JobState | None]:
    """Return how those of the jobs ended that have; None where there is no such job."""
    states = ((job, state_of(connection, now, job)) for job in jobs)
    return {job: state for job, state in states if state is None or state in _ENDS}

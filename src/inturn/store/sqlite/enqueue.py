"""Accepting jobs, all or none."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from inturn.model.errors import DedupeConflict, QueueFull, UnknownDependency
from inturn.model.job import JobState, NewJob, Ticket
from inturn.policy.dedupe import digest
from inturn.policy.drain import come_back_seconds
from inturn.store.sqlite import lane_row, queue_row, tickets
from inturn.store.sqlite.append import append
from inturn.store.sqlite.queue_row import QueueRow
from inturn.store.sqlite.rows import WHOLE_JOB, WholeJob
from inturn.store.sqlite.stats import settled_lately
from inturn.store.sqlite.times import Micros, micros_of_seconds

_WHOLE = ", ".join("?" * 10)


def enqueue(connection: sqlite3.Connection, now: Micros, jobs: Sequence[NewJob]) -> list[Ticket]:
    """Accept jobs that were checked before, in the given order within each key."""
    if not jobs:
        return []
    queues = queue_row.all_made(connection, (job.queue for job in jobs))
    given = tickets.known(connection, now, jobs)
    fresh = [job for job in jobs if job.id not in given]
    firsts = _dedupe(connection, now, fresh) if any(job.dedupe for job in fresh) else {}
    accepted = [job for job in fresh if job.id not in firsts]
    waits = _waits(connection, now, accepted, firsts) if any(job.after for job in fresh) else {}
    _check_bounds(connection, now, accepted, waits, queues)
    joining = [job for job in accepted if job.id not in waits and not job.delay_seconds]
    places = append(connection, [_whole(job, now) for job in joining], queues)
    for job, (lane, position) in zip(joining, places, strict=True):
        given[job.id] = Ticket(id=job.id, lane=lane, position=position)
    if len(joining) < len(accepted):
        _park(connection, now, [job for job in accepted if job.delay_seconds])
        _block(connection, now, [job for job in accepted if job.id in waits], waits)
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
        return tickets.ticket_of(connection, firsts[job], duplicate=True)
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
    """Return, for each job that has to wait for others, those that are not done yet."""
    together = {job.id for job in jobs}
    unfinished: dict[UUID, bool] = {}
    missing: set[UUID] = set()
    cancelled: set[UUID] = set()
    for other in {firsts.get(name, name) for job in jobs for name in job.after}:
        state = None if other in together else tickets.state_of(connection, now, other)
        if state is JobState.CANCELLED:
            cancelled.add(other)
        elif state is None and other not in together:
            missing.add(other)
        unfinished[other] = state is not JobState.DONE
    if missing or cancelled:
        raise UnknownDependency(missing, cancelled)
    waits = {
        job.id: {other for name in job.after if unfinished[other := firsts.get(name, name)]}
        for job in jobs
        if job.after
    }
    return {job: others for job, others in waits.items() if others}


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
        "insert into waits (on_job, job) values (?, ?)",
        [(other.bytes, job.id.bytes) for job in jobs for other in sorted(waits[job.id])],
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

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
from inturn.policy.drain import come_back_seconds
from inturn.store.sqlite import lane_row
from inturn.store.sqlite.forsake import spare
from inturn.store.sqlite.lane_row import LaneRow
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queues import QueueRow, made_queues
from inturn.store.sqlite.rows import WHOLE_JOB, Micros, WholeJob, micros_of_seconds, rank
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


Place = tuple[int, int]  # lane and position

_ROWS_TOGETHER = 50
_COLUMNS = (
    "lane, position, id, kind, payload, priority, round, attempts_max, timeout_seconds, enqueued_at"
)
_IS_OPEN = (
    " where lane.queue = ? and lane.key is null and lane.kind = ? and lane.priority = ?"
    " and lane.round = ?"
)


def append(
    connection: sqlite3.Connection, jobs: Sequence[WholeJob], queues: Mapping[str, QueueRow]
) -> list[Place]:
    """Put jobs at the tails of their lanes and return where each one stands."""
    lanes: dict[tuple[Any, ...], LaneRow] = {}
    firsts: dict[int, tuple[WholeJob, int]] = {}  # the first job of each lane, and its round there
    places: list[Place] = []
    rows: list[tuple[Any, ...]] = []
    for job in jobs:
        name = _lane_name(job)
        lane = lanes.get(name)
        if lane is None:
            lane = lanes[name] = _lane_of(connection, job)
        lane.last += 1
        # Rounds never fall within a keyed lane: a gate would otherwise hold back an open round.
        lane.last_round = max(lane.last_round, job.round)
        firsts.setdefault(lane.id, (job, lane.last_round))
        places.append((lane.id, lane.last))
        rows.append(_log_row(job, lane))
    insert_jobs(connection, rows)
    for lane in lanes.values():
        connection.execute(
            "update tail set last = ?, round = ? where lane = ?",
            (lane.last, lane.last_round, lane.id),
        )
        _show_waiting(connection, queues[lane.queue], lane, *firsts[lane.id])
    return places


def insert_jobs(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Add rows to the log, many with one statement.

    A thread that runs SQLite gives up Python's lock at every step and, beside a busy thread, waits
    5 ms to get it back: 500 rows one by one took 200 ms instead of 1. So, few steps.
    """
    whole = len(rows) - len(rows) % _ROWS_TOGETHER
    for start in range(0, whole, _ROWS_TOGETHER):
        together = rows[start : start + _ROWS_TOGETHER]
        connection.execute(_insert(_ROWS_TOGETHER), [value for row in together for value in row])
    connection.executemany(_insert(1), rows[whole:])


def _insert(count: int) -> str:
    row = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    return f"insert into job ({_COLUMNS}) values {', '.join([row] * count)}"


def _log_row(job: WholeJob, lane: LaneRow) -> tuple[Any, ...]:
    return (
        lane.id,
        lane.last,
        job.id,
        job.kind,
        job.payload,
        job.priority,
        lane.last_round,
        job.attempts_max,
        job.timeout_seconds,
        job.enqueued_at,
    )


def _show_waiting(
    connection: sqlite3.Connection, queue: QueueRow, lane: LaneRow, first: WholeJob, round: int
) -> None:
    """Let a lane in which nothing waited be claimed, unless it is leased, halted or paused."""
    if lane.waiting_since is not None:
        return
    lane.waiting_since = first.enqueued_at
    if not lane.active:
        lane.active = 1
        lane.kind, lane.priority, lane.round = first.kind, first.priority, round
        if lane.is_claimable():
            lane.rank_at = rank(first.enqueued_at, first.priority, queue.aging_seconds)
    lane_row.save(connection, lane)


def _lane_name(job: WholeJob) -> tuple[Any, ...]:
    if job.key is not None:
        return job.queue, job.key
    return job.queue, None, job.kind, job.priority, job.round


def _lane_of(connection: sqlite3.Connection, job: WholeJob) -> LaneRow:
    """Return the lane a job belongs to, making it if need be."""
    if job.key is not None:
        lane = lane_row.find(connection, job.queue, job.key)
    else:
        row = connection.execute(
            query("lane") + _IS_OPEN,
            (job.queue, job.kind, job.priority, job.round),
        ).fetchone()
        lane = None if row is None else LaneRow(*row)
    return lane if lane is not None else _make_lane(connection, job)


def _make_lane(connection: sqlite3.Connection, job: WholeJob) -> LaneRow:
    made = connection.execute(
        "insert into lane (queue, key, kind, priority, round) values (?, ?, ?, ?, ?)",
        (job.queue, job.key, job.kind, job.priority, job.round),
    )
    assert made.lastrowid is not None
    connection.execute("insert into tail (lane) values (?)", (made.lastrowid,))
    return LaneRow(made.lastrowid, job.queue, job.key)

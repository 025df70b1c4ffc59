"""Jobs as a person sees them: one, a list, a result, and why one is where it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from inturn.model import bounds
from inturn.model.errors import ResultLost, UnknownJob
from inturn.model.job import JobState, JobView
from inturn.model.lane import LaneView
from inturn.policy.explain import WORKER_SEEN_SECONDS, Awaited, Facts
from inturn.policy.explain import explain as sentence
from inturn.store.paging import Asked, Page, decode_cursor, encode_cursor
from inturn.store.sqlite import lane_row, lanes
from inturn.store.sqlite.enqueue import state_of
from inturn.store.sqlite.lane_row import LaneRow
from inturn.store.sqlite.leases import said_of
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queues import find_queue, reached
from inturn.store.sqlite.rows import (
    WHOLE_JOB,
    Micros,
    errors_of,
    job_of,
    micros_of_seconds,
    time_of,
    time_or_none,
)
from inturn.store.sqlite.run import decode_ranges, holds

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
    connection: sqlite3.Connection, now: Micros, states: Sequence[JobState | None], asked: Asked
) -> Page[JobView]:
    """List jobs of some states (None: of any) by id, newest first."""
    rows_max, before = asked.rows_max, UUID(int=2**128 - 1)
    if asked.cursor is not None:
        [before] = decode_cursor(asked.cursor, UUID)
    arguments = asked._asdict() | {"before": before.bytes, "now": now, "rows_max": rows_max + 1}
    found: set[bytes] = set()
    for one in states:
        arguments["state"] = None if one is None else str(one)
        for name in _QUERIES[one]:
            if name == "ids_waiting" and _many_wait(connection):
                name = "ids_waiting_of_many"
            found.update(id for (id,) in connection.execute(query(name), arguments))
    ids = sorted(found, reverse=True)[: rows_max + 1]
    views = tuple(job(connection, now, UUID(bytes=id)) for id in ids[:rows_max])
    more = encode_cursor(views[-1].job.id) if len(ids) > rows_max else None
    return Page(rows=views, cursor=more)


def jobs_ending(connection: sqlite3.Connection, now: Micros, *, ending: str) -> list[UUID]:
    """Return the jobs, ten at most, whose id ends with these hexadecimal digits."""
    rows = connection.execute(query("ids_ending"), {"ending": ending})
    return [UUID(bytes=id) for (id,) in rows]


def _many_wait(connection: sqlite3.Connection) -> bool:
    waiting: Any = connection.execute("select sum(waiting) from depth").fetchone()[0]
    return (waiting or 0) > _FEW_WAITING


def job(connection: sqlite3.Connection, now: Micros, id: UUID) -> JobView:
    """Return a job with its state and place in line. Raises ``UnknownJob``."""
    for look in (_dead, _cancelled, _blocked, _parked, _logged):
        view = look(connection, now, id.bytes)
        if view is not None:
            return view
    raise UnknownJob(id)


def result(connection: sqlite3.Connection, now: Micros, id: UUID) -> str | None:
    """Return the JSON text a job's handler returned, while it is kept. Raises ``ResultLost``."""
    statement = "select value, lost from result where job = ? and until > ?"
    row: tuple[str, str | None] | None
    row = connection.execute(statement, (id.bytes, now)).fetchone()
    if row is None:
        return None
    value, lost = row
    if lost is not None:
        raise ResultLost(id, lost)
    return value


def _dead(connection: sqlite3.Connection, now: Micros, id: bytes) -> JobView | None:
    row = _find(connection, "dead", "attempts, errors, reason, died_at", id)
    if row is None:
        return None
    attempts, errors, reason, died_at = row[10:]
    lane, position = _place(connection, id)
    return JobView(
        job=job_of(row),
        state=JobState.DEAD,
        lane=lane,
        position=position,
        attempt=attempts,
        errors=errors_of(errors),
        died_at=time_of(died_at),
        reason=reason,
    )


def _cancelled(connection: sqlite3.Connection, now: Micros, id: bytes) -> JobView | None:
    row = _find(connection, "cancelled", "lane, position, cancelled_by, reason", id)
    if row is None:
        return None
    lane, position, by, reason = row[10:]
    return JobView(
        job=job_of(row),
        state=JobState.CANCELLED,
        lane=lane,
        position=position,
        cancelled_by=by,
        reason=reason,
    )


def _blocked(connection: sqlite3.Connection, now: Micros, id: bytes) -> JobView | None:
    row = _find(connection, "blocked", "null", id)
    if row is None:
        return None
    statement = "select on_job, on_failure from waits where job = ? order by on_job limit ?"
    others = connection.execute(statement, (id, bounds.AWAITED_SHOWN_MAX)).fetchall()
    count = connection.execute("select count(*) from waits where job = ?", (id,)).fetchone()[0]
    return JobView(
        job=job_of(row),
        state=JobState.BLOCKED,
        waits_for=tuple(UUID(bytes=other) for other, _ in others),
        waits_for_count=count,
        is_reaction=any(on_failure for _, on_failure in others),
    )


def _parked(connection: sqlite3.Connection, now: Micros, id: bytes) -> JobView | None:
    row = _find(connection, "parked", "run_at, attempt, errors, suspect, token", id)
    if row is None:
        return None
    run_at, attempt, errors, suspect, token = row[10:]
    worker, until = _lease(connection, token)
    if token is not None:
        state = JobState.RUNNING
    elif attempt > 0:
        state = JobState.RETRYING
    else:
        state = JobState.SCHEDULED if run_at > now else JobState.WAITING
    return JobView(
        job=job_of(row),
        state=state,
        run_at=time_of(run_at) if state in (JobState.SCHEDULED, JobState.RETRYING) else None,
        attempt=attempt,
        errors=errors_of(errors),
        worker=worker,
        leased_until=time_or_none(until),
        suspect=bool(suspect),
        progress=None if token is None else said_of(connection, id, token),
    )


def _logged(connection: sqlite3.Connection, now: Micros, id: bytes) -> JobView | None:
    row = _find(connection, "log", "lane, position", id)
    if row is None:
        return None
    lane = lane_row.load(connection, row[10])
    assert lane is not None
    look = _in_open_lane if lane.key is None else _in_keyed_lane
    return look(connection, row, lane)


def _in_keyed_lane(connection: sqlite3.Connection, row: tuple[Any, ...], lane: LaneRow) -> JobView:
    position: int = row[11]
    view: dict[str, Any] = {"job": job_of(row), "lane": lane.id, "position": position}
    if position < lane.head:
        return JobView(**view, state=JobState.DONE)
    is_head = position == lane.head
    history: dict[str, Any] = {
        "attempt": lane.head_attempt if is_head else int(position < lane.cursor),
        "errors": errors_of(lane.head_errors) if is_head else (),
        "suspect": position <= lane.suspect_last,
    }
    if position < lane.cursor:
        worker, until = _lease(connection, lane.token)
        state = JobState.RUNNING
        held: dict[str, Any] = {"worker": worker, "leased_until": time_or_none(until)}
        if lane.token is not None:
            held["progress"] = said_of(connection, row[0], lane.token)
        return JobView(**view, **history, **held, state=state)
    state = JobState.RETRYING if is_head and lane.head_attempt > 0 else JobState.WAITING
    ahead = position - lane.head
    ahead -= lane_row.cancelled_between(connection, lane.id, lane.head, position - 1)
    run_at = time_or_none(lane.ready_at) if is_head else None
    return JobView(**view, **history, state=state, ahead=ahead, run_at=run_at)


def _in_open_lane(connection: sqlite3.Connection, row: tuple[Any, ...], lane: LaneRow) -> JobView:
    position: int = row[11]
    view: dict[str, Any] = {"job": job_of(row), "lane": lane.id, "position": position}
    if position >= lane.cursor:
        ahead = position - lane.cursor
        ahead -= lane_row.cancelled_between(connection, lane.id, lane.cursor, position - 1)
        return JobView(**view, state=JobState.WAITING, ahead=ahead)
    run = connection.execute(
        "select token, last, settled from run where lane = ? and first <= ? "
        "order by first desc limit 1",
        (lane.id, position),
    ).fetchone()
    if run is None or position > run[1] or holds(decode_ranges(run[2]), position):
        return JobView(**view, state=JobState.DONE)
    worker, until = _lease(connection, run[0])
    return JobView(
        **view,
        state=JobState.RUNNING,
        attempt=1,
        worker=worker,
        leased_until=time_or_none(until),
        progress=said_of(connection, row[0], run[0]),
    )


def _find(
    connection: sqlite3.Connection, table: str, columns: str, id: bytes
) -> tuple[Any, ...] | None:
    statement = f"select {WHOLE_JOB}, {columns} from {table} where id = ?"
    row: tuple[Any, ...] | None = connection.execute(statement, (id,)).fetchone()
    return row


def _place(connection: sqlite3.Connection, id: bytes) -> tuple[int | None, int | None]:
    row = connection.execute("select lane, position from job where id = ?", (id,)).fetchone()
    return (None, None) if row is None else row


def _lease(connection: sqlite3.Connection, token: int | None) -> tuple[str | None, Micros | None]:
    if token is None:
        return None, None
    row = connection.execute("select worker, until from lease where token = ?", (token,)).fetchone()
    return (None, None) if row is None else row


_AWAITED_SAID = 5


def explain(connection: sqlite3.Connection, now: Micros, id: UUID) -> str:
    """Say in one honest sentence why a job is where it is. Raises ``UnknownJob``."""
    return sentence(facts(connection, now, id))


def facts(connection: sqlite3.Connection, now: Micros, id: UUID) -> Facts:
    """Gather what there is to know about a job's place."""
    view = job(connection, now, id)
    queue = find_queue(connection, view.job.queue)
    assert queue is not None
    lane = _lane(connection, view)
    head, worker, until = (None, None, None) if lane is None else _head(connection, lane)
    kind = lane.kind if lane is not None and lane.key is not None else view.job.kind
    return Facts(
        view=view,
        now=time_of(now),
        gate=queue.gate,
        queue_paused_by=queue.paused_by,
        lane=None if lane is None else lanes.view(connection, queue.gate, lane),
        key_lane=_key_lane(connection, queue.gate, view),
        head=head,
        head_worker=worker,
        head_until=until,
        awaited=_awaited(connection, now, view),
        taken=_is_taken(connection, now, view.job.queue, kind),
        limit_reached=reached(connection, now, queue),
        is_local=bool(queue.local),
    )


def _lane(connection: sqlite3.Connection, view: JobView) -> LaneRow | None:
    """Return the lane a job stands in: a parked job's row in the log is only history."""
    if view.ahead is None and view.state not in (JobState.DEAD, JobState.RUNNING):
        return None
    return None if view.lane is None else lane_row.load(connection, view.lane)


def _key_lane(connection: sqlite3.Connection, gate: int, view: JobView) -> LaneView | None:
    """Return the lane of a job's key, also when the job does not stand in it yet."""
    if view.job.key is None:
        return None
    lane = lane_row.find(connection, view.job.queue, view.job.key)
    return None if lane is None else lanes.view(connection, gate, lane)


def _head(
    connection: sqlite3.Connection, lane: LaneRow
) -> tuple[UUID | None, str | None, datetime | None]:
    """Return a keyed lane's first unsettled job, the worker that has the lane, and until when."""
    if lane.key is None:
        return None, None, None
    statement = "select id from job where lane = ? and position = ?"
    row = connection.execute(statement, (lane.id, lane.head)).fetchone()
    head = None if row is None else UUID(bytes=row[0])
    leased = connection.execute("select worker, until from lease where token = ?", (lane.token,))
    worker, until = leased.fetchone() or (None, None)
    return head, worker, time_or_none(until)


def _awaited(connection: sqlite3.Connection, now: Micros, view: JobView) -> tuple[Awaited, ...]:
    """Return the first few jobs that a blocked one waits for, what has failed before others."""
    failed = connection.execute(query("awaited_failed"), (view.job.id.bytes, _AWAITED_SAID))
    jobs = dict.fromkeys([*(UUID(bytes=job) for (job,) in failed), *view.waits_for])
    states = [(state_of(connection, now, job), job) for job in list(jobs)[:_AWAITED_SAID]]
    return tuple(Awaited(job=job, state=state) for state, job in states if state is not None)


def _is_taken(connection: sqlite3.Connection, now: Micros, queue: str, kind: str) -> bool:
    """Say whether a live worker takes this kind from this queue; one without kinds takes all."""
    since = now - micros_of_seconds(WORKER_SEEN_SECONDS)
    rows = connection.execute("select queues, kinds from worker where seen_at >= ?", (since,))
    for queues, kinds in rows:
        taken = msgspec.json.decode(kinds, type=list[str])
        if queue in msgspec.json.decode(queues, type=list[str]) and (not taken or kind in taken):
            return True
    return False

"""The facts behind a job's place, from which one sentence is made."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from uuid import UUID

import msgspec

from inturn.model.job import JobState, JobView
from inturn.model.lane import LaneView
from inturn.policy.explain import WORKER_SEEN_SECONDS, Awaited, Facts
from inturn.policy.explain import explain as sentence
from inturn.store.sqlite import job_view, lane_row, lane_view, queue_row
from inturn.store.sqlite.lane_row import LaneRow
from inturn.store.sqlite.tickets import state_of
from inturn.store.sqlite.times import Micros, micros_of_seconds, time_of, time_or_none

_AWAITED_SAID = 5


def explain(connection: sqlite3.Connection, now: Micros, job: UUID) -> str:
    """Say in one honest sentence why a job is where it is. Raises ``UnknownJob``."""
    return sentence(facts(connection, now, job))


def facts(connection: sqlite3.Connection, now: Micros, job: UUID) -> Facts:
    """Gather what there is to know about a job's place."""
    view = job_view.job(connection, now, job)
    queue = queue_row.find(connection, view.job.queue)
    assert queue is not None
    lane = _lane(connection, view)
    head, worker, until = (None, None, None) if lane is None else _head(connection, lane)
    kind = lane.kind if lane is not None and lane.key is not None else view.job.kind
    return Facts(
        view=view,
        now=time_of(now),
        gate=queue.gate,
        queue_paused_by=queue.paused_by,
        lane=None if lane is None else lane_view.view(connection, queue.gate, lane),
        key_lane=_key_lane(connection, queue.gate, view),
        head=head,
        head_worker=worker,
        head_until=until,
        awaited=_awaited(connection, now, view),
        taken=_is_taken(connection, now, view.job.queue, kind),
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
    return None if lane is None else lane_view.view(connection, gate, lane)


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
    """Return the first few jobs that a blocked one waits for, dead letters before others."""
    states = [(state_of(connection, now, job), job) for job in view.waits_for]
    states.sort(key=lambda awaited: awaited[0] is not JobState.DEAD)
    return tuple(
        Awaited(job=job, state=state) for state, job in states[:_AWAITED_SAID] if state is not None
    )


def _is_taken(connection: sqlite3.Connection, now: Micros, queue: str, kind: str) -> bool:
    """Say whether a live worker takes this kind from this queue; one without kinds takes all."""
    since = now - micros_of_seconds(WORKER_SEEN_SECONDS)
    rows = connection.execute("select queues, kinds from worker where seen_at >= ?", (since,))
    for queues, kinds in rows:
        taken = msgspec.json.decode(kinds, type=list[str])
        if queue in msgspec.json.decode(queues, type=list[str]) and (not taken or kind in taken):
            return True
    return False

"""Settling: saying what became of leased jobs, whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from inturn.model import bounds
from inturn.model.errors import LeaseLost, WrongJob
from inturn.model.job import AttemptError
from inturn.model.lease import Lease
from inturn.policy.settlement import (
    Outcome,
    Settlement,
    buried_reason,
    done_ranges,
    error_text,
    has_result,
    outspoken,
    result_texts,
    traceback_text,
)
from inturn.policy.settling import Settling
from inturn.policy.verdict import Bury, Done, Release, Retry, Verdict
from inturn.store.sqlite import dependents, lane_row, leases
from inturn.store.sqlite.dead import bury_head, bury_logged, bury_parked
from inturn.store.sqlite.lane_row import LaneRow
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queues import QueueRow, made_queue
from inturn.store.sqlite.rows import Micros, micros_of_seconds, rank, time_of, with_error
from inturn.store.sqlite.run import decode_ranges, encode_ranges, holds, with_positions
from inturn.store.sqlite.workers import add_stats


def settle(connection: sqlite3.Connection, now: Micros, settling: Settling) -> None:
    """Write what became of leased jobs. On ``LeaseLost`` the caller takes it all back."""
    settler = Settler(connection, now, settling.worker)
    lost: list[int] = []
    for settlement in settling.settlements:
        lease = settlement.lease
        if not settlement.outcomes:
            continue
        try:
            if lease.lane is None:
                settle_parked(settler, settlement)
            elif lease.key is None:
                settle_open(settler, settlement)
            else:
                settle_keyed(settler, settlement)
        except LeaseLost:
            lost.append(lease.token)
    if lost:
        raise LeaseLost(lost)
    if settler.wrong is not None:
        raise settler.wrong
    settler.admit_dependents()
    add_stats(connection, now, settling.tallies())


def settle_keyed(settler: Settler, settlement: Settlement) -> None:
    """Move a keyed lane's head over done jobs, up to the first that is not."""
    lease, outcomes = settlement.lease, settlement.outcomes
    assert lease.lane is not None
    lane = lane_row.load(settler.connection, lease.lane)
    positions = [outcome.job.position for outcome in outcomes]
    if (
        lane is None
        or lane.token != lease.token
        or positions[0] != lane.head
        or positions[-1] != lane.head + len(positions) - 1
        or positions[-1] >= lane.cursor
    ):
        raise LeaseLost([lease.token])
    said = outspoken(outcomes)
    held = settler.held(lease, said)
    head, leased = lane.head, lane.cursor - lane.head
    done = _count_done(outcomes)
    if done:
        settler.run_done(lane.id, head, head + done - 1)
        lane.head += done
        lane.forget_head()
        lane.head_attempt = 1  # the next job of the run is on its first attempt
    settler.keep_results(said)
    if done < len(outcomes):
        _stop(settler, lane, outcomes[done].verdict, held[lane.head])
        ended = leased
    elif lane.head == lane.cursor:
        lane.take_back(lane.cursor)
        lane.forget_head()
        lane_row.refresh(settler.connection, settler.queue(lane.queue), lane)
        ended = leased
    else:
        lane_row.save(settler.connection, lane)
        ended = done
    leases.settled(settler.connection, lease.token, ended)


def _count_done(outcomes: Sequence[Outcome]) -> int:
    for number, outcome in enumerate(outcomes):
        if type(outcome.verdict) is not Done:
            return number
    return len(outcomes)


def _stop(settler: Settler, lane: LaneRow, verdict: Verdict, held: Held) -> None:
    """End the run at a job that is not done: nothing may overtake it."""
    attempt = lane.head_attempt
    queue = settler.queue(lane.queue)
    if type(verdict) is Release:
        lane.head_attempt = max(attempt - 1, 0)
        lane.take_back(lane.head)
        lane_row.refresh(settler.connection, queue, lane)
        return
    assert isinstance(verdict, Retry | Bury)
    errors = settler.with_failure(lane.head_errors, attempt, verdict)
    spent = type(verdict) is Retry and verdict.counted and attempt >= held.attempts_max
    if type(verdict) is Bury or spent:
        bury_head(
            settler.connection,
            settler.now,
            queue,
            lane,
            position=lane.head,
            attempts=attempt,
            errors=errors,
            reason=buried_reason(attempt, verdict),
        )
        return
    assert type(verdict) is Retry
    lane.head_attempt = attempt if verdict.counted else max(attempt - 1, 0)
    lane.head_errors = errors
    delay = micros_of_seconds(verdict.delay_seconds)
    lane.ready_at = settler.now + delay if delay else None
    lane.take_back(lane.head)
    lane_row.refresh(settler.connection, queue, lane)


def settle_open(settler: Settler, settlement: Settlement) -> None:
    """Take positions off a run: done, or on to parked or dead."""
    connection, lease = settler.connection, settlement.lease
    assert lease.lane is not None
    place = (lease.token, lease.lane)
    row = connection.execute(
        "select first, last, settled from run where token = ? and lane = ?", place
    ).fetchone()
    if row is None:
        raise LeaseLost([lease.token])
    first, last, kept = row
    before = decode_ranges(kept)
    positions = [outcome.job.position for outcome in settlement.outcomes]
    outside = positions[0] < first or positions[-1] > last
    if outside or (before and any(holds(before, position) for position in positions)):
        raise LeaseLost([lease.token])
    said = outspoken(settlement.outcomes)
    held = settler.held(lease, said)
    after = with_positions(before, positions)
    if after == [(first, last)]:
        connection.execute("delete from run where token = ? and lane = ?", place)
    else:
        connection.execute(
            "update run set settled = ? where token = ? and lane = ?",
            (encode_ranges(after), *place),
        )
    for outcome in said:
        if type(outcome.verdict) is not Done:
            position = outcome.job.position
            _set_aside(settler, lease.lane, position, outcome.verdict, held[position])
    settler.keep_results(said)
    if settler.somebody_waits:
        for first, last in done_ranges(settlement):
            settler.run_done(lease.lane, first, last)
    leases.settled(connection, lease.token, len(positions))


def _set_aside(settler: Settler, lane: int, position: int, verdict: Verdict, held: Held) -> None:
    """Take a job that is not done out of the run. It was its first attempt."""
    if type(verdict) is Release:
        park_logged(settler, lane, position, run_at=settler.now, attempt=0, errors=None)
        return
    assert isinstance(verdict, Retry | Bury)
    errors = settler.with_failure(None, 1, verdict)
    if type(verdict) is Retry and not (verdict.counted and held.attempts_max <= 1):
        run_at = settler.now + micros_of_seconds(verdict.delay_seconds)
        park_logged(
            settler, lane, position, run_at=run_at, attempt=int(verdict.counted), errors=errors
        )
        return
    reason = buried_reason(1, verdict)
    bury_logged(
        settler.connection, settler.now, lane, position, attempts=1, errors=errors, reason=reason
    )


def park_logged(
    settler: Settler, lane: int, position: int, *, run_at: Micros, attempt: int, errors: str | None
) -> None:
    """Let a job of an open lane wait by itself from now on."""
    connection = settler.connection
    statement = (
        "select lane.queue, job.priority from job join lane on lane.id = job.lane "
        "where job.lane = ? and job.position = ?"
    )
    queue, priority = connection.execute(statement, (lane, position)).fetchone()
    aging = settler.queue(queue).aging_seconds
    rank_at = rank(run_at, priority, aging) if run_at <= settler.now else None
    connection.execute(query("park_logged"), (run_at, attempt, errors, 0, rank_at, lane, position))


def settle_parked(settler: Settler, settlement: Settlement) -> None:
    """Take a parked job out, give it back, or let it wait to retry."""
    connection, token = settler.connection, settlement.lease.token
    [outcome] = settlement.outcomes
    row = connection.execute(
        "select id, queue, priority, attempts_max, attempt, errors, suspect "
        "from parked where token = ?",
        (token,),
    ).fetchone()
    if row is None:
        raise LeaseLost([token])
    id, queue, priority, attempts_max, attempt, errors, suspect = row
    if outspoken(settlement.outcomes):
        settler.check_job(token, outcome, id)
    leases.settled(connection, token, 1)
    verdict = outcome.verdict
    if type(verdict) is Done:
        connection.execute("delete from parked where id = ?", (id,))
        settler.keep_results([outcome])
        settler.job_done(id)
        return
    back = _GivenBack(settler, id, priority, settler.queue(queue).aging_seconds)
    if type(verdict) is Release:
        back.write(run_at=settler.now, attempt=attempt - 1, errors=errors, suspect=suspect)
        return
    assert isinstance(verdict, Retry | Bury)
    errors = settler.with_failure(errors, attempt, verdict)
    spent = type(verdict) is Retry and verdict.counted and attempt >= attempts_max
    if type(verdict) is Bury or spent:
        reason = buried_reason(attempt, verdict)
        bury_parked(connection, settler.now, id, errors=errors, reason=reason)
        return
    assert type(verdict) is Retry
    run_at = settler.now + micros_of_seconds(verdict.delay_seconds)
    counted = attempt if verdict.counted else attempt - 1
    back.write(run_at=run_at, attempt=counted, errors=errors, suspect=0)


class _GivenBack:
    """A parked job whose lease has ended."""

    def __init__(self, settler: Settler, id: bytes, priority: int, aging_seconds: float) -> None:
        self._settler, self._id = settler, id
        self._priority, self._aging_seconds = priority, aging_seconds

    def write(self, *, run_at: Micros, attempt: int, errors: str | None, suspect: int) -> None:
        due = run_at <= self._settler.now
        rank_at = rank(run_at, self._priority, self._aging_seconds) if due else None
        self._settler.connection.execute(
            "update parked set token = null, run_at = ?, attempt = ?, errors = ?, suspect = ?, "
            "rank_at = ? where id = ?",
            (run_at, attempt, errors, suspect, rank_at, self._id),
        )


class Held(msgspec.Struct, frozen=True, gc=False):
    """What the store knows of a job under a lease."""

    id: bytes
    attempts_max: int


class Settler:
    """Gathers what the settlements of one call have in common."""

    def __init__(self, connection: sqlite3.Connection, now: Micros, worker: str) -> None:
        self.connection, self.now, self.worker = connection, now, worker
        self.at = time_of(now)
        self._queues: dict[str, QueueRow] = {}
        self.somebody_waits = dependents.somebody_waits(connection)
        self._done_runs: list[tuple[int, int, int]] = []
        self._done_jobs: list[bytes] = []
        self.wrong: WrongJob | None = None  # the first job that its lease does not hold

    def queue(self, name: str) -> QueueRow:
        """Return a queue, read once."""
        if name not in self._queues:
            self._queues[name] = made_queue(self.connection, name)
        return self._queues[name]

    def held(self, lease: Lease, said: Sequence[Outcome]) -> dict[int, Held]:
        """Return the jobs of the log that these outcomes are about, by position.

        Notes the first that is not the one its outcome names.
        """
        if not said:
            return {}
        rows = self.connection.execute(
            "select position, id, attempts_max from job "
            "where lane = ? and position between ? and ?",
            (lease.lane, said[0].job.position, said[-1].job.position),
        )
        held = {position: Held(id, attempts_max) for position, id, attempts_max in rows}
        for outcome in said:
            self.check_job(lease.token, outcome, held[outcome.job.position].id)
        return held

    def check_job(self, token: int, outcome: Outcome, held: bytes) -> None:
        """Note a job that is not the one its lease holds there."""
        if outcome.job.id.bytes != held and self.wrong is None:
            self.wrong = WrongJob(token, outcome.job.position, outcome.job.id)

    def with_failure(self, errors: str | None, attempt: int, verdict: Retry | Bury) -> str:
        """Return a kept history of errors with one more, of this attempt."""
        added = AttemptError(
            attempt=attempt,
            at=self.at,
            worker=self.worker,
            error=error_text(verdict),
            traceback=traceback_text(verdict),
        )
        return with_error(errors, added)

    def keep_results(self, outcomes: Iterable[Outcome]) -> None:
        """Keep what handlers returned, each for its time."""
        kept = []
        for outcome in outcomes:
            verdict = outcome.verdict
            if type(verdict) is Done and has_result(verdict):
                seconds = verdict.result_seconds
                seconds = bounds.RESULT_SECONDS_DEFAULT if seconds is None else seconds
                until = self.now + micros_of_seconds(seconds)
                value, lost = result_texts(verdict)
                kept.append((outcome.job.id.bytes, value, until, lost))
        if kept:
            keep = "insert or replace into result (job, value, until, lost) values (?, ?, ?, ?)"
            self.connection.executemany(keep, kept)

    def run_done(self, lane: int, first: int, last: int) -> None:
        """Note that a lane's positions from first to last are done."""
        if self.somebody_waits:
            self._done_runs.append((lane, first, last))

    def job_done(self, id: bytes) -> None:
        """Note that a job that waited by itself is done."""
        if self.somebody_waits:
            self._done_jobs.append(id)

    def admit_dependents(self) -> None:
        """Let in what waited for the jobs that are done now; called when all lanes are written."""
        runs = (dependents.awaited_in_run(self.connection, *run) for run in self._done_runs)
        done = chain(chain.from_iterable(runs), self._done_jobs)
        dependents.unblock(self.connection, self.now, done)

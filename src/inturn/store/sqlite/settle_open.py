"""Settling jobs of an open lane's run, in any order."""

from __future__ import annotations

from inturn.model.errors import LeaseLost
from inturn.policy.settlement import Settlement, buried_reason, done_ranges, outspoken
from inturn.policy.verdict import Bury, Done, Release, Retry, Verdict
from inturn.store.sqlite import leases
from inturn.store.sqlite.bury import bury_logged
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.rows import rank
from inturn.store.sqlite.settled import decode_ranges, encode_ranges, holds, with_positions
from inturn.store.sqlite.settler import Held, Settler
from inturn.store.sqlite.times import Micros, micros_of_seconds


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

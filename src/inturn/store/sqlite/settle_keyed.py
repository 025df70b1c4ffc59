"""Settling jobs of a keyed lane's run: done ones move its head, any other gives the rest back."""

from __future__ import annotations

from collections.abc import Sequence

from inturn.model.errors import LeaseLost
from inturn.policy.settlement import Outcome, Settlement, buried_reason, outspoken
from inturn.policy.verdict import Bury, Done, Release, Retry, Verdict
from inturn.store.sqlite import lane_row, leases
from inturn.store.sqlite.bury import bury_head
from inturn.store.sqlite.lane_row import LaneRow
from inturn.store.sqlite.settler import Held, Settler
from inturn.store.sqlite.times import micros_of_seconds


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

"""Claiming: look at the lanes, lock one, lease a run of it, or put it to sleep when it is empty."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.database import Move, lane_seen, locked, new_token, with_locks, with_worker
from tests.model.promises import name, place
from tests.model.rules import Bounds, Rules
from tests.model.state import Change, Held, Lane, Lease, Row, State, Worker

Written = tuple[tuple[Row, ...], tuple[Change, ...]]
"""The rows that a step has locked, and its changes."""


def begin(state: State, number: int, who: str, rules: Rules) -> Iterator[Move]:
    """Start the statement that claims: what it sees of the tails is as old as its start.

    A worker that has settled in this transaction goes on with what it holds: that is a turn.
    """
    worker = state.workers[number]
    if any(_may_be_claimed(row, rules) for row in _lanes_seen(state, worker)):
        looked = worker._replace(step="claiming", tails=state.tails)
        yield Move(who, "starts to claim", with_worker(state, number, looked))


def take(state: State, number: int, who: str, rules: Rules, bounds: Bounds) -> Iterator[Move]:
    """Lock a claimable lane, as it is by now, and take a run up to the tail as it was seen."""
    worker = state.workers[number]
    found = False
    for lane, row in enumerate(_lanes_seen(state, worker)):
        if not _may_be_claimed(row, rules) or locked(state, ("lane", lane), worker.locks):
            continue  # skip locked
        found = True
        alone = row.cursor <= row.suspect_last
        most = 1 if alone else bounds.jobs_max
        last = min(worker.tails[lane], row.cursor + most - 1)
        if last < row.cursor:
            empty = worker._replace(
                step="found empty", locks=with_locks(worker.locks, ("lane", lane)), empty=lane
            )
            does = f"locks lane {name(lane)} and sees nothing in it"
            yield Move(who, does, with_worker(state, number, empty))
        else:
            leasing = _lease(state, worker, lane, row, last, alone, rules)
            first = place(lane, row.cursor)
            run = first if last == row.cursor else f"{first} to {place(lane, last)}"
            does = f"locks lane {name(lane)} and leases {run}{' alone' if alone else ''}"
            yield Move(who, does, with_worker(state, number, leasing))
    if not found:
        yield Move(who, "finds no lane to claim", with_worker(state, number, _empty_handed(worker)))


def rest(state: State, number: int, who: str, rules: Rules) -> Iterator[Move]:
    """Put the lane that was found empty to sleep, if nobody is adding to it."""
    worker = state.workers[number]
    lane = worker.empty
    if not rules.tails_tried_by_consumers and locked(state, ("tail", lane), worker.locks):
        return
    row = lane_seen(state, lane, worker.changes)
    slept = sleep(state, lane, row, worker.tails[lane], rules, worker.locks)
    if slept is None:
        does = f"leaves lane {name(lane)} active: its tail is not free, or a job has come"
        yield Move(who, does, with_worker(state, number, _empty_handed(worker)))
        return
    locks, changes = slept
    resting = worker._replace(
        step="committing",
        tails=(),
        empty=-1,
        locks=with_locks(worker.locks, *locks),
        changes=(*worker.changes, *changes),
    )
    yield Move(who, f"puts lane {name(lane)} to sleep", with_worker(state, number, resting))


def sleep(
    state: State, lane: int, row: Lane, seen: int, rules: Rules, own: tuple[Row, ...]
) -> Written | None:
    """Return the locks and changes that make a lane inactive, or nothing if it must stay active.

    ``row`` is the lane's as the transaction leaves it, ``seen`` its tail at an earlier look.
    """
    last = state.tails[lane] if rules.rests_after_a_second_look else seen
    if last >= row.cursor:
        return None
    asleep = row._replace(active=False, head=row.cursor, token=0, attempt=0)
    if not rules.rests_under_the_tail_lock:
        return (), (("lane", lane, asleep),)
    if locked(state, ("tail", lane), own):
        return None
    changes: tuple[Change, ...] = (("lane", lane, asleep),)
    if rules.rests_write_the_tail:
        changes = (("tail", lane, state.tails[lane]), *changes)
    return (("tail", lane),), changes


def _lease(
    state: State, worker: Worker, lane: int, row: Lane, last: int, alone: bool, rules: Rules
) -> Worker:
    serial = new_token(state)
    token = serial if rules.tokens_new else 1
    jobs = tuple(n for n in range(row.cursor, last + 1) if n in state.log[lane])
    leased = row._replace(
        cursor=last + 1, token=token, attempt=row.attempt + rules.claims_count_attempts
    )
    lease = Lease(token, serial, lane, alone)
    held = Held(token, serial, lane, row.cursor, last, alone, jobs, worker.tails[lane])
    changes = (("leased", lease, jobs), ("lane", lane, leased), ("holds", held))
    return worker._replace(
        step="committing",
        tails=(),
        locks=with_locks(worker.locks, ("lane", lane)),
        changes=(*worker.changes, *changes),
    )


def _empty_handed(worker: Worker) -> Worker:
    """Return a worker that claimed nothing: it ends its transaction, if that has settled."""
    return worker._replace(step="committing", tails=(), empty=-1) if worker.changes else Worker()


def _lanes_seen(state: State, worker: Worker) -> tuple[Lane, ...]:
    if not worker.changes:
        return state.lanes
    return tuple(lane_seen(state, n, worker.changes) for n in range(len(state.lanes)))


def _may_be_claimed(row: Lane, rules: Rules) -> bool:
    return row.is_claimable or (row.active and not rules.one_lease_a_lane)

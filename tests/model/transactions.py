"""A longer transaction: a settle, and a job that is enqueued together with it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.database import Move, lane_seen, locked, with_locks, with_worker
from tests.model.producers import must_wake
from tests.model.promises import name, place
from tests.model.state import State


def reserve(state: State, number: int, who: str) -> Iterator[Move]:
    """Lock a tail and take a position, or wait; the lane that was settled stays locked."""
    worker = state.workers[number]
    assert worker.adds is not None
    lane, _ = worker.adds
    if locked(state, ("tail", lane), worker.locks):
        return
    position = state.tails[lane] + 1
    reserved = worker._replace(
        step="looking",
        adds=(lane, position),
        locks=with_locks(worker.locks, ("tail", lane)),
        changes=(*worker.changes, ("tail", lane, position), ("job", lane, position)),
    )
    does = (
        f"locks the tail of {name(lane)} and takes {place(lane, position)} in the same transaction"
    )
    yield Move(who, does, with_worker(state, number, reserved))


def look(state: State, number: int, who: str) -> Iterator[Move]:
    """Read whether the lane that it adds to must be woken."""
    worker = state.workers[number]
    assert worker.adds is not None
    lane, position = worker.adds
    asleep = must_wake(lane_seen(state, lane, worker.changes), position - 1)
    if asleep:
        looked = worker._replace(step="waking")
        does = f"sees that it must wake lane {name(lane)}"
    else:
        looked = worker._replace(step="committing", adds=None)
        does = f"sees lane {name(lane)} active"
    yield Move(who, does, with_worker(state, number, looked))


def wake(state: State, number: int, who: str) -> Iterator[Move]:
    """Make the lane active, or wait for who has it."""
    worker = state.workers[number]
    assert worker.adds is not None
    lane, _ = worker.adds
    if locked(state, ("lane", lane), worker.locks):
        return
    row = lane_seen(state, lane, worker.changes)._replace(active=True, attempt=0)
    woken = worker._replace(
        step="committing",
        adds=None,
        locks=with_locks(worker.locks, ("lane", lane)),
        changes=(*worker.changes, ("lane", lane, row)),
    )
    yield Move(who, f"wakes {name(lane)}", with_worker(state, number, woken))

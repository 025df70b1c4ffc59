"""What a database does: row locks until the end of a transaction, snapshots, commits.

PostgreSQL as the protocol uses it. At *read committed* each statement sees what is committed when
it starts, and a row that it locks as it is by then. At *repeatable read* a transaction sees what
was committed when it began, and fails if a row that it wants to lock has been written since.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.model import promises
from tests.model.state import Change, Lane, Lease, Producer, Row, State, Truth, Worker


class Move(NamedTuple):
    """One step that somebody can take now, in words, and where it leads."""

    who: str
    does: str
    state: State
    is_fault: bool = False


def locked(state: State, row: Row, own: tuple[Row, ...] = ()) -> bool:
    """Say whether another transaction holds a row."""
    if row in own:
        return False
    return any(row in one.locks for one in state.producers) or any(
        row in one.locks for one in state.workers
    )


def with_locks(locks: tuple[Row, ...], *more: Row) -> tuple[Row, ...]:
    """Add rows to those that a transaction holds; what it has, it has."""
    return (*locks, *(row for row in more if row not in locks))


def lane_seen(state: State, number: int, changes: Iterable[Change]) -> Lane:
    """Return a lane's row as a transaction sees it that has made changes itself."""
    row = state.lanes[number]
    for change in changes:
        if change[0] == "lane" and change[1] == number:
            row = change[2]
    return row


def commit(state: State, changes: Iterable[Change]) -> State:
    """Make changes visible to all, and judge what they do.

    ("tail", lane, last), ("lane", lane, row)            a row is written
    ("job", lane, position), ("dead", lane, position)    … or added
    ("leased", lease, jobs), ("freed", lease)            a lease is added, or taken away
    ("done", held, positions, tries)                     jobs have ended, and so many times their
    ("buried", held, position)                           lane's next one is tried by now
    ("given back", lane, tries), ("suspect", lane, last) what is true of a lane from now on
    ("holds", held)                                      what its worker knows afterwards
    """
    written: set[Row] = set()
    for change in changes:
        match change:
            case ("tail", int(lane), last):
                state = state._replace(tails=_put(state.tails, lane, last))
                written.add(("tail", lane))
            case ("lane", int(lane), row):
                state = state._replace(lanes=_put(state.lanes, lane, row))
                written.add(("lane", lane))
            case ("job", int(lane), position):
                state = state._replace(log=_put(state.log, lane, (*state.log[lane], position)))
            case ("dead", int(lane), position):
                state = state._replace(dead=_put(state.dead, lane, (*state.dead[lane], position)))
                truth = state.truths[lane]
                ended = tuple(sorted({*truth.ended, position}))
                state = _note(state, lane, truth._replace(ended=ended))
            case ("leased", lease, jobs):
                state = _lease(state, lease, jobs)
            case ("freed", lease):
                left = tuple(one for one in state.leases if one != lease)
                state = state._replace(leases=left)
            case ("done", held, positions, tries):
                state = _end(state, held, positions, tries)
            case ("buried", held, position):
                state = _end(state, held, (position,), tries=0)
            case ("given back", int(lane), tries):
                state = _note(state, lane, state.truths[lane]._replace(tries=tries))
            case ("suspect", int(lane), last):
                truth = state.truths[lane]
                truth = truth._replace(suspect_last=max(truth.suspect_last, last))
                state = _note(state, lane, truth)
            case ("holds", _):
                pass  # it is in its worker's memory
            case _:
                raise AssertionError(change)
    return _age_snapshots(state, written)


def new_token(state: State) -> int:
    """Return a number that is nobody's: neither in a row nor in anyone's memory.

    The real ones count up. Tokens are only ever compared, so the smallest free number stands for
    all of them, and worlds that differ in their tokens' names alone are one.
    """
    used = {lease.serial for lease in state.leases}
    for worker in state.workers:
        if worker.held is not None:
            used.add(worker.held.serial)
        used.update(one[1].serial for one in worker.changes if one[0] == "leased")
    return next(number for number in range(1, len(used) + 2) if number not in used)


def with_producer(state: State, number: int, producer: Producer) -> State:
    return state._replace(producers=_put(state.producers, number, producer))


def with_worker(state: State, number: int, worker: Worker) -> State:
    return state._replace(workers=_put(state.workers, number, worker))


def _lease(state: State, lease: Lease, jobs: tuple[int, ...]) -> State:
    wrongs = (*state.wrongs, *promises.of_lease(state, lease, jobs))
    truth = state.truths[lease.lane]
    state = state._replace(leases=tuple(sorted((*state.leases, lease))), wrongs=wrongs)
    return _note(state, lease.lane, truth._replace(tries=truth.tries + 1))


def _end(state: State, held: Any, positions: tuple[int, ...], tries: int) -> State:
    wrongs = (*state.wrongs, *promises.of_settle(state, held, positions))
    truth = state.truths[held.lane]
    ended = tuple(sorted({*truth.ended, *positions}))
    return _note(state._replace(wrongs=wrongs), held.lane, truth._replace(ended=ended, tries=tries))


def _note(state: State, lane: int, truth: Truth) -> State:
    return state._replace(truths=_put(state.truths, lane, truth))


def _age_snapshots(state: State, written: set[Row]) -> State:
    if not written or all(one.snapshot is None for one in state.producers):
        return state
    return state._replace(
        producers=tuple(
            one
            if one.snapshot is None
            else one._replace(snapshot=one.snapshot._replace(stale=one.snapshot.stale | written))
            for one in state.producers
        )
    )


def _put(rows: tuple[Any, ...], place: int, row: Any) -> tuple[Any, ...]:
    return (*rows[:place], row, *rows[place + 1 :])

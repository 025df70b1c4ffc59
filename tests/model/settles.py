"""Settling: hold the lease, say what became of its jobs, and move the lane on."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.claims import Written, sleep
from tests.model.database import Move, commit, locked, with_worker
from tests.model.promises import name, place
from tests.model.rules import Bounds, Rules
from tests.model.state import Change, Held, Lane, Lease, State, Worker


def begin(state: State, number: int, who: str, rules: Rules, bounds: Bounds) -> Iterator[Move]:
    """Choose a verdict and lock the lease, or learn that it is gone."""
    worker = state.workers[number]
    held = worker.held
    assert held is not None
    lease = _lease_of(state, held)
    serial = held.serial if lease is None else lease.serial
    if locked(state, ("lease", serial)):
        return
    if lease is None and rules.settles_fenced:
        does = f"wants to settle {_run(held)} and is told that its lease is lost"
        yield Move(who, does, with_worker(state, number, Worker()))
        return
    for verdict in _verdicts(held, bounds):
        holding = worker._replace(step=verdict, locks=(("lease", serial),))
        does = f"locks its lease to settle {_said(held, verdict)}"
        if lease is None:
            does = f"settles {_said(held, verdict)} though its lease is gone"
        yield Move(who, does, with_worker(state, number, holding))


def settle(
    state: State, number: int, who: str, verdict: str, rules: Rules, bounds: Bounds
) -> Iterator[Move]:
    """Write the lane's row and what else the verdict asks for; wait for who has the lane."""
    worker = state.workers[number]
    held = worker.held
    assert held is not None
    if locked(state, ("lane", held.lane)):
        return
    row = state.lanes[held.lane]
    if rules.settles_fenced and (row.token, row.head) != (held.token, held.first):
        does = f"is told that its lease on lane {name(held.lane)} is lost"
        yield Move(who, does, with_worker(state, number, Worker()))
        return
    follows = range(len(state.lanes)) if state.followers else ()
    for lane in (None, *follows):  # where another job is to be enqueued, in this transaction
        within = lane is not None
        sleeps = not (within and rules.transactions_leave_tails_alone)
        locks, changes = _write(state, held, row, verdict, sleeps, rules, bounds)
        settled = worker._replace(
            step=_next(within, changes, bounds),
            locks=(*worker.locks, ("lane", held.lane), *locks),
            changes=changes,
            adds=None if lane is None else (lane, 0),
        )
        if not rules.buries_atomic and any(one[0] == "dead" for one in changes):
            settled = settled._replace(
                step="committing",
                changes=tuple(one for one in changes if one[0] not in ("dead", "buried")),
                unburied=(held.lane, held.first),
            )
        after = state._replace(followers=state.followers - within)
        does = _done(held, verdict, changes)
        if lane is not None:
            does += f" and will add to lane {name(lane)}"
        yield Move(who, does, with_worker(after, number, settled))


def bury(state: State, number: int, who: str) -> Iterator[Move]:
    """Write the dead letter, in a transaction of its own: nobody should."""
    unburied = state.workers[number].unburied
    assert unburied is not None
    after = with_worker(state, number, Worker())
    does = f"writes {place(*unburied)} as a dead letter"
    yield Move(who, does, commit(after, (("dead", *unburied),)))


def buried(
    state: State, held: Held, row: Lane, lease: Lease | None, rules: Rules, *, sleeps: bool = True
) -> Written:
    """Set a lane's head aside as a dead letter, its lease ended, and go on behind it."""
    position = held.first
    row = row._replace(head=position + 1, cursor=position + 1, token=0, attempt=0)
    changes: tuple[Change, ...] = (("buried", held, position), ("dead", held.lane, position))
    return _moved_on(state, held, row, changes + _freed(lease), rules, sleeps)


def given_back(held: Held, row: Lane, lease: Lease | None, attempt: int, tries: int) -> Written:
    """End the lease at the lane's head: the whole run waits again."""
    row = row._replace(cursor=row.head, token=0, attempt=attempt)
    return (), (*_freed(lease), ("given back", held.lane, tries), ("lane", held.lane, row))


def _write(
    state: State, held: Held, row: Lane, verdict: str, sleeps: bool, rules: Rules, bounds: Bounds
) -> Written:
    lease = _lease_of(state, held)
    if verdict == "done in part":
        moved = row._replace(head=held.first + 1, attempt=1)
        rest = held._replace(
            first=held.first + 1, jobs=tuple(job for job in held.jobs if job > held.first)
        )
        done = ("done", held, tuple(job for job in held.jobs if job == held.first), 1)
        return (), (done, ("lane", held.lane, moved), ("holds", rest))
    if verdict == "done":
        row = row._replace(head=held.last + 1, cursor=held.last + 1, token=0, attempt=0)
        done = ("done", held, held.jobs, 0)
        return _moved_on(state, held, row, (done, *_freed(lease)), rules, sleeps)
    if verdict == "bury" or (verdict == "retry" and row.attempt >= bounds.attempts_max):
        return buried(state, held, row, lease, rules, sleeps=sleeps)
    uncounted = int(verdict == "release")
    tries = state.truths[held.lane].tries - uncounted
    return given_back(held, row, lease, max(row.attempt - uncounted, 0), tries)


def _moved_on(
    state: State, held: Held, row: Lane, changes: tuple[Change, ...], rules: Rules, sleeps: bool
) -> Written:
    slept = sleep(state, held.lane, row, held.tail, rules, own=()) if sleeps else None
    if slept is None:
        return (), (*changes, ("lane", held.lane, row))
    locks, more = slept
    return locks, (*changes, *more)


def _lease_of(state: State, held: Held) -> Lease | None:
    """Return the lease that a worker's token names."""
    return next((one for one in state.leases if one.token == held.token), None)


def _freed(lease: Lease | None) -> tuple[Change, ...]:
    return () if lease is None else (("freed", lease),)


def _verdicts(held: Held, bounds: Bounds) -> Iterator[str]:
    yield "done"
    if held.last > held.first:
        yield "done in part"
    if bounds.failures:
        yield "bury"
        yield "release"
        if bounds.attempts_max > 1:  # else it is buried
            yield "retry"


def _next(within: bool, changes: tuple[Change, ...], bounds: Bounds) -> str:
    """Return what follows a settle: a job that is enqueued with it, a claim, or the commit."""
    if within:
        return "settled within"
    is_over = not any(one[0] == "holds" for one in changes)
    return "settled" if bounds.turns and is_over else "committing"


def _done(held: Held, verdict: str, changes: tuple[Change, ...]) -> str:
    if verdict in ("retry", "release") and not any(one[0] == "dead" for one in changes):
        return f"gives {_run(held)} back"
    asleep = any(one[0] == "lane" and not one[2].active for one in changes)
    return f"moves lane {name(held.lane)} on{' and puts it to sleep' if asleep else ''}"


def _run(held: Held) -> str:
    first = place(held.lane, held.first)
    return first if held.first == held.last else f"{first} to {place(held.lane, held.last)}"


def _said(held: Held, verdict: str) -> str:
    if verdict == "done":
        return f"{_run(held)} as done"
    first = place(held.lane, held.first)
    said = {"done in part": "done", "retry": "failed", "bury": "dead", "release": "not started"}
    return f"{first} as {said[verdict]}"

"""Taking back a lease that ran out: its jobs are suspects, or the one that was alone is blamed."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.claims import Written
from tests.model.database import Move, locked, with_worker
from tests.model.promises import name
from tests.model.rules import Bounds, Rules
from tests.model.settles import buried, given_back
from tests.model.state import Held, Lease, State, Worker


def reclaim(state: State, number: int, who: str, rules: Rules, bounds: Bounds) -> Iterator[Move]:
    """Take back a lease whose worker died, or has stalled for too long."""
    for lease in state.leases:
        if locked(state, ("lease", lease.serial)) or locked(state, ("lane", lease.lane)):
            continue  # skip locked
        lives = any(
            one.held is not None and one.held.serial == lease.serial for one in state.workers
        )
        if lives and not bounds.stalls:
            continue
        row = state.lanes[lease.lane]
        if row.token != lease.token:
            continue
        locks, changes = _write(state, lease, rules, bounds)
        taken = Worker(
            step="committing",
            locks=(("lease", lease.serial), ("lane", lease.lane), *locks),
            changes=changes,
        )
        whose = "a worker that has stalled" if lives else "one that died"
        does = f"takes back the lease of {whose} on lane {name(lease.lane)}"
        yield Move(who, does, with_worker(state, number, taken), is_fault=lives)


def _write(state: State, lease: Lease, rules: Rules, bounds: Bounds) -> Written:
    row = state.lanes[lease.lane]
    lost = Held(
        lease.token, lease.serial, lease.lane, row.head, row.cursor - 1, lease.alone,
        tuple(range(row.head, row.cursor)), state.tails[lease.lane],
    )  # fmt: skip
    tries = state.truths[lease.lane].tries
    if lease.alone:
        if row.attempt >= bounds.attempts_max:
            return buried(state, lost, row, lease, rules)
        return given_back(lost, row, lease, row.attempt, tries)
    last = row.cursor - 1
    if rules.suspects_leased_alone:
        row = row._replace(suspect_last=max(row.suspect_last, last))
    locks, changes = given_back(lost, row, lease, max(row.attempt - 1, 0), tries - 1)
    return locks, (*changes, ("suspect", lease.lane, last))

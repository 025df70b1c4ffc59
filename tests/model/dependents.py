"""A second, smaller model: jobs that wait for others (``after``), and who lets them in.

Actors are producers (accept what waits), settlers (end what is waited for), rechecks (look at
waits that a settle may not have seen) and a canceller. Between any two steps of one everybody else
may go on. See the functions ``block``, ``hold_waiting``, ``unblock`` and ``recheck``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from tests.model.explorer import Counterexample

Wait = tuple[int, int]
"""An awaited job, and the job that waits for it."""
Lock = tuple[str, int]
"""("lease", awaited job), ("blocked", job) or ("left", awaited job)."""

NONE: frozenset[Wait] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the protocol rests on."""

    fresh_until_looked_at: bool = True
    """A wait for a job of an earlier batch is fresh: looked at again once it is there."""
    rechecks_try_the_lease: bool = True
    """Whoever looks has the lease of what is waited for, so that no settle is under way."""
    rechecks_write_the_lease: bool = True
    """… and writes it, so that a settle with an older snapshot cannot lock it."""
    rechecks_hold_the_job: bool = True
    """Who takes a job's wait away holds the job's row in blocked: the last one lets it in."""
    settles_hold_the_jobs: bool = True
    """… and so does a settle."""
    settles_delete_what_they_hold: bool = True
    """A settle takes away the waits of the jobs that it holds, and none that came since."""
    rest_is_noted: bool = True
    """A settle that leaves some waits for later notes the job they wait for."""

    def without(self, rule: str) -> Rules:
        """Return these rules but one."""
        return replace(self, **{rule: False})


RULES = tuple(field.name for field in fields(Rules))
EARLY, TWICE, STUCK = "early", "twice", "stuck"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Who is there. Awaited jobs are numbered from 0, and so are those that wait."""

    after: tuple[frozenset[int], ...]
    """What each job waits for."""
    batches: tuple[tuple[frozenset[int], frozenset[int]], ...]
    """Of each producer: the jobs that wait, and the awaited jobs of the same batch."""
    rechecks: int = 1
    old_snapshots: bool = False
    """Whether settles read by the snapshot they began with."""
    cancelled: tuple[int, ...] = ()
    """Jobs that somebody cancels while they are blocked."""
    waits_max: int = 10
    """So many waits are taken at a time."""
    many: tuple[int, ...] = ()
    """Jobs that wait for so many that a settle only tries to lock them."""

    @property
    def awaited(self) -> range:
        return range(max(max(after) for after in self.after) + 1)


class Actor(NamedTuple):
    """Somebody with, perhaps, an open transaction."""

    kind: str
    what: int
    step: str = "idle"
    locks: frozenset[Lock] = frozenset()
    seen: tuple[Wait, ...] = ()
    gone: frozenset[Wait] = NONE  # waits taken away
    looked: frozenset[Wait] = NONE  # waits that are fresh no more
    joins: frozenset[int] = frozenset()
    leaves: bool = False  # a settle leaves some for later
    snapshot: frozenset[Wait] | None = None
    stale: bool = False  # its lease was written since the snapshot


class State(NamedTuple):
    """What is committed, and who is doing what."""

    done: frozenset[int]
    leased: frozenset[int]
    blocked: frozenset[int]
    waits: frozenset[Wait]
    fresh: frozenset[Wait]
    left: frozenset[int]
    """Awaited jobs that are done while some of what waited for them is still to be let in."""
    joined: tuple[int, ...]
    cancelled: frozenset[int]
    actors: tuple[Actor, ...]


Move = tuple[str, str, State, bool]
"""Who does what, where that leads, and whether it is a fault."""


def start(world: World) -> State:
    later = frozenset().union(*(awaited for _, awaited in world.batches))
    actors = [Actor("producer", number) for number in range(len(world.batches))]
    actors += [Actor("settle", number) for number in world.awaited]
    actors += [Actor("recheck", number) for number in range(world.rechecks)]
    actors += [Actor("cancel", job) for job in world.cancelled]
    return State(
        done=frozenset(),
        leased=frozenset(world.awaited) - later,
        blocked=frozenset(),
        waits=NONE,
        fresh=NONE,
        left=frozenset(),
        joined=(0,) * len(world.after),
        cancelled=frozenset(),
        actors=tuple(actors),
    )


def moves(state: State, world: World, rules: Rules) -> Iterator[Move]:
    """Return every step that somebody can take."""
    for number, actor in enumerate(state.actors):
        step = {"producer": produce, "settle": settle, "recheck": recheck, "cancel": cancel}[
            actor.kind
        ]
        who = f"{actor.kind} {'ABCD'[actor.what] if actor.kind == 'settle' else actor.what + 1}"
        for does, after in step(state, number, actor, world, rules):
            yield who, does, after, False
        if actor.step not in ("idle", "over"):
            # A producer gives up; whoever else tries again.
            step_after = "over" if actor.kind == "producer" else "idle"
            lost = Actor(actor.kind, actor.what, step=step_after)
            yield who, "loses its transaction", _with(state, number, lost), True


Steps = Iterator[tuple[str, State]]


def produce(state: State, number: int, actor: Actor, world: World, rules: Rules) -> Steps:
    """Accept a batch: look which awaited jobs are done, and block what waits for others."""
    jobs, batch = world.batches[actor.what]
    if actor.step == "idle":
        seen = tuple(
            (on, job) for job in sorted(jobs) for on in sorted(world.after[job] - state.done)
        )
        yield (
            "looks at what it waits for",
            _with(state, number, actor._replace(step="blocking", seen=seen)),
        )
    elif actor.step == "blocking":
        blocked = frozenset(job for _, job in actor.seen)
        fresh = frozenset(wait for wait in actor.seen if wait[0] not in batch)
        state = state._replace(
            leased=state.leased | batch,
            blocked=state.blocked | blocked,
            waits=state.waits | frozenset(actor.seen),
            fresh=state.fresh | (fresh if rules.fresh_until_looked_at else NONE),
            joined=_joined(state, jobs - blocked),
        )
        yield "commits", _with(state, number, Actor("producer", actor.what, step="over"))


def settle(state: State, number: int, actor: Actor, world: World, rules: Rules) -> Steps:
    """End an awaited job: lock its lease, then what waits for it, then let that in."""
    on = actor.what
    if actor.step == "idle" and on in state.leased and world.old_snapshots:
        begun = actor._replace(step="begun", snapshot=state.waits)
        yield "begins with a snapshot", _with(state, number, begun)
    elif actor.step in ("idle", "begun") and on in state.leased:
        if _is_free(state, ("lease", on)):
            if actor.stale:
                yield "is refused", _with(state, number, Actor("settle", on))
                return
            held = actor._replace(step="looking", locks=frozenset({("lease", on)}))
            yield "locks its lease", _with(state, number, held)
    elif actor.step == "looking":
        waits = state.waits if actor.snapshot is None else actor.snapshot
        seen = tuple(sorted(wait for wait in waits if wait[0] == on))
        found = actor._replace(
            step="holding",
            seen=seen[: world.waits_max],
            leaves=len(seen) > world.waits_max,
        )
        yield f"sees {_named(found.seen)}", _with(state, number, found)
    elif actor.step == "holding":
        missing = [
            lock
            for _, job in actor.seen
            if (lock := ("blocked", job)) not in actor.locks and job in state.blocked
        ]
        if missing and rules.settles_hold_the_jobs:
            if missing[0][1] in world.many and not _is_free(state, missing[0]):
                kept = tuple(wait for wait in actor.seen if wait[1] != missing[0][1])
                left = actor._replace(seen=kept, leaves=True)
                yield f"leaves job {missing[0][1] + 1} for later", _with(state, number, left)
            elif _is_free(state, missing[0]):
                held = actor._replace(locks=actor.locks | {missing[0]})
                yield f"locks job {missing[0][1] + 1}", _with(state, number, held)
            return
        gone = frozenset(actor.seen)
        if not rules.settles_delete_what_they_hold:
            gone = frozenset(wait for wait in state.waits if wait[0] == on)
        yield from _let_in(state, number, actor, gone & state.waits, {job for _, job in actor.seen})
    elif actor.step == "committing":
        state = _take_away(state, actor)._replace(
            done=state.done | {on},
            leased=state.leased - {on},
            left=state.left | ({on} if actor.leaves and rules.rest_is_noted else frozenset()),
        )
        yield "commits", _with(state, number, Actor("settle", on, step="over"))


def recheck(state: State, number: int, actor: Actor, world: World, rules: Rules) -> Steps:
    """Look at fresh waits, and at those that a settle has left, as far as nobody has them."""
    if actor.step == "idle":
        picked = sorted(state.fresh) + sorted(wait for wait in state.waits if wait[0] in state.left)
        seen = tuple(picked[: world.waits_max])
        if seen or state.left:
            yield (
                f"picks {_named(seen)}",
                _with(state, number, actor._replace(step="trying", seen=seen)),
            )
    elif actor.step == "trying":
        locks = set()
        kept = []
        for wait in actor.seen:
            on, job = wait
            if rules.rechecks_hold_the_job:
                if job not in state.blocked or not _is_free(state, ("blocked", job)):
                    continue
                locks.add(("blocked", job))
            if rules.rechecks_try_the_lease and on in state.leased:
                if not _is_free(state, ("lease", on)):
                    continue
                locks.add(("lease", on))
            kept.append(wait)
        held = actor._replace(step="reading", seen=tuple(kept), locks=frozenset(locks))
        yield f"holds {_named(held.seen)}", _with(state, number, held)
    elif actor.step == "reading":
        gone = frozenset(wait for wait in actor.seen if wait[0] in state.done) & state.waits
        actor = actor._replace(looked=frozenset(actor.seen) - gone)
        yield from _let_in(state, number, actor, gone, {job for _, job in gone})
    elif actor.step == "committing":
        written = {lock for lock in actor.locks if lock[0] == "lease"}
        after = _take_away(state, actor)
        after = after._replace(
            fresh=after.fresh - actor.looked,
            left=frozenset(on for on in after.left if any(wait[0] == on for wait in after.waits)),
        )
        if rules.rechecks_write_the_lease:
            after = after._replace(
                actors=tuple(
                    one._replace(stale=True)
                    if one.snapshot is not None and ("lease", one.what) in written
                    else one
                    for one in after.actors
                )
            )
        yield "commits", _with(after, number, Actor("recheck", actor.what))


def cancel(state: State, number: int, actor: Actor, world: World, rules: Rules) -> Steps:
    """Cancel a blocked job: its row first, then its waits."""
    job = actor.what
    lock = ("blocked", job)
    if actor.step == "idle" and job in state.blocked and _is_free(state, lock):
        held = actor._replace(step="committing", locks=frozenset({lock}))
        yield f"locks job {job + 1}", _with(state, number, held)
    elif actor.step == "committing":
        waits = frozenset(wait for wait in state.waits if wait[1] == job)
        state = state._replace(
            blocked=state.blocked - {job},
            waits=state.waits - waits,
            fresh=state.fresh - waits,
            cancelled=state.cancelled | {job},
        )
        yield "commits", _with(state, number, actor._replace(step="over", locks=frozenset()))


def explore(world: World, rules: Rules | None = None) -> tuple[int, Counterexample | None]:
    """Take every step in every order; return how many states there are, and what was broken."""
    rules = rules or Rules()
    first = start(world)
    numbers = {first: 0}
    came_from: list[tuple[int, str, str]] = [(-1, "", "")]
    before: list[list[int]] = [[]]
    ends: list[int] = []
    left = deque([first])
    while left:
        state = left.popleft()
        here = numbers[state]
        if (wrong := _wrong(state, world)) is not None:
            return len(numbers), _way(came_from, here, *wrong)
        if _is_end(state):
            ends.append(here)
        for who, does, after, is_fault in moves(state, world, rules):
            there = numbers.setdefault(after, len(numbers))
            if there == len(came_from):
                came_from.append((here, who, does))
                before.append([])
                left.append(after)
            if not is_fault:
                before[there].append(here)
    reaches = bytearray(len(numbers))
    while ends:
        here = ends.pop()
        if not reaches[here]:
            reaches[here] = True
            ends += before[here]
    stuck = reaches.find(False)
    if stuck < 0:
        return len(numbers), None
    return len(numbers), _way(came_from, stuck, STUCK, "a job waits, and nobody will let it in")


def _let_in(
    state: State, number: int, actor: Actor, gone: frozenset[Wait], jobs: set[int]
) -> Steps:
    """Take waits away, and let in which of the jobs are blocked and wait for nothing more."""
    waiting = {job for _, job in state.waits - gone}
    joins = frozenset((jobs & state.blocked) - waiting)
    after = actor._replace(step="committing", gone=gone, joins=joins)
    does = f"lets in {', '.join(f'job {job + 1}' for job in sorted(joins)) or 'nobody'}"
    yield does, _with(state, number, after)


def _take_away(state: State, actor: Actor) -> State:
    return state._replace(
        blocked=state.blocked - actor.joins,
        waits=state.waits - actor.gone,
        fresh=state.fresh - actor.gone,
        joined=_joined(state, actor.joins),
    )


def _joined(state: State, jobs: frozenset[int]) -> tuple[int, ...]:
    return tuple(count + (job in jobs) for job, count in enumerate(state.joined))


def _is_free(state: State, lock: Lock) -> bool:
    return not any(lock in one.locks for one in state.actors)


def _with(state: State, number: int, actor: Actor) -> State:
    actors = (*state.actors[:number], actor, *state.actors[number + 1 :])
    return state._replace(actors=actors)


def _wrong(state: State, world: World) -> tuple[str, str] | None:
    for job, count in enumerate(state.joined):
        if count + (job in state.cancelled) > 1:
            return TWICE, f"job {job + 1} ends its wait twice"
        if count and not world.after[job] <= state.done:
            return EARLY, f"job {job + 1} is let in before all it waits for is done"
    return None


def _is_end(state: State) -> bool:
    return (
        not (state.blocked or state.waits or state.left or state.leased)
        and all(one.step == "over" for one in state.actors if one.kind == "producer")
        and all(one.step in ("idle", "over") for one in state.actors)
    )


def _named(waits: tuple[Wait, ...]) -> str:
    said = [f"{job + 1} after {'ABCD'[on]}" for on, job in waits]
    return ", ".join(said) or "nothing"


def _way(
    came_from: list[tuple[int, str, str]], number: int, promise: str, said: str
) -> Counterexample:
    steps = []
    while number > 0:
        number, who, does = came_from[number]
        steps.append((who, does))
    return Counterexample(promise, said, tuple(reversed(steps)))


A, B = frozenset({0}), frozenset({1})
FIRST, SECOND = frozenset({0}), frozenset({1})
EMPTY: frozenset[int] = frozenset()

WORLDS = {
    "one after two": World(after=(A | B,), batches=((FIRST, EMPTY),), rechecks=2),
    "one after two, old snapshots": World(
        after=(A | B,), batches=((FIRST, EMPTY),), old_snapshots=True
    ),
    "one of its own batch": World(after=(A | B,), batches=((FIRST, B),), rechecks=2),
    "two after one, one at a time": World(
        after=(A, A), batches=((FIRST | SECOND, EMPTY),), waits_max=1, rechecks=2
    ),
    "one after two, that waits for many": World(
        after=(A | B,), batches=((FIRST, EMPTY),), many=(0,)
    ),
    "two batches, one cancelled": World(
        after=(A, A | B), batches=((FIRST, EMPTY), (SECOND, EMPTY)), cancelled=(1,)
    ),
}

VARIANTS = {
    "fresh_until_looked_at": World(after=(A,), batches=((FIRST, EMPTY),)),
    "rechecks_try_the_lease": World(after=(A,), batches=((FIRST, EMPTY),)),
    "rechecks_write_the_lease": World(after=(A,), batches=((FIRST, EMPTY),), old_snapshots=True),
    "rechecks_hold_the_job": World(after=(A | B,), batches=((FIRST, EMPTY),)),
    "settles_hold_the_jobs": World(after=(A | B,), batches=((FIRST, EMPTY),)),
    "settles_delete_what_they_hold": World(after=(A,), batches=((FIRST, EMPTY),)),
    "rest_is_noted": World(after=(A, A), batches=((FIRST | SECOND, EMPTY),), waits_max=1),
}
"""For each rule a world just large enough to show what goes wrong without it."""

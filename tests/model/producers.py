"""What producers do: lock tails, take positions, wake lanes, add to the log, commit.

Each step stands for a statement of ``inturn.reserve`` or ``inturn.append``.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.database import Move, commit, locked, with_producer
from tests.model.promises import name, place
from tests.model.rules import Bounds, Rules
from tests.model.state import Lane, Producer, Snapshot, State


def moves(state: State, number: int, rules: Rules, bounds: Bounds) -> Iterator[Move]:
    """Return what a producer can do now."""
    producer = state.producers[number]
    if not producer.batches:
        return
    who = f"producer {number + 1}"
    one = _Turn(state, number, producer, rules)
    step = one.first() if producer.step == "idle" else producer.step
    move: tuple[str, State] | None
    match step:
        case "beginning":
            move = one.begin()
        case "reserving":
            move = one.reserve()
        case "looking" | "looking first":
            move = one.look()
        case "waking":
            move = one.wake()
        case _:
            move = one.commit()
    if move is not None:  # else it waits for a lock
        yield Move(who, *move)
    if bounds.rollbacks and producer.step != "idle":
        yield Move(who, "loses its transaction, and gives up", one.done(state), is_fault=True)


def must_wake(lane: Lane, before: int | None) -> bool:
    """Say whether a lane is to be woken, or is left active though drained and learns its head."""
    drained = before is not None and lane.cursor > before
    return not lane.active or (not lane.token and drained)


class _Turn:
    """A producer that takes a step."""

    def __init__(self, state: State, number: int, producer: Producer, rules: Rules) -> None:
        self._state, self._number, self._producer, self._rules = state, number, producer, rules
        self._batch = producer.batches[0]

    def first(self) -> str:
        """Return its first step: a look at things before the lock, or the lock."""
        if self._batch.repeatable_read or not self._rules.positions_read_after_the_lock:
            return "beginning"
        return "reserving" if self._rules.active_read_after_the_lock else "looking first"

    def begin(self) -> tuple[str, State]:
        """Read before the lock: by a snapshot, or as nobody should."""
        producer = self._producer._replace(step="reserving")
        if self._batch.repeatable_read:
            producer = producer._replace(snapshot=Snapshot(self._state.lanes))
            return "begins at repeatable read: its snapshot is taken", self._with(producer)
        read = tuple((lane, self._state.tails[lane]) for lane, _ in self._jobs())
        said = " and ".join(f"{name(lane)} ends at {last}" for lane, last in read)
        return f"reads that {said}", self._with(producer._replace(read=read))

    def reserve(self) -> tuple[str, State] | None:
        """Lock the next tail and take positions from it, or wait."""
        producer = self._producer
        lane, count = self._jobs()[len(producer.taken)]
        before = dict(producer.read).get(lane, self._state.tails[lane])
        moved = ("tail", lane, before + count)
        producer = self._take(producer, lane, before)
        if not self._rules.positions_under_the_tail_lock:
            does = f"takes {_places(lane, before, count)} and locks nothing"
            return does, commit(self._with(producer), (moved,))
        if self._is_stale(("tail", lane)):
            return (
                f"cannot lock the tail of {name(lane)}, written since its snapshot",
                self._again(),
            )
        if locked(self._state, ("tail", lane)):
            return None
        producer = producer._replace(
            locks=(*producer.locks, ("tail", lane)), changes=(*producer.changes, moved)
        )
        does = f"locks the tail of {name(lane)} and takes {_places(lane, before, count)}"
        return does, self._with(producer)

    def look(self) -> tuple[str, State]:
        """Read which lanes have to be woken, by a new statement."""
        producer, state = self._producer, self._state
        lanes = state.lanes if producer.snapshot is None else producer.snapshot.lanes
        befores = dict(producer.taken)
        asleep = tuple(sorted(n for n, _ in self._jobs() if must_wake(lanes[n], befores.get(n))))
        step = _next(asleep) if producer.taken else "reserving"
        producer = producer._replace(asleep=asleep, step=step)
        if asleep:
            return f"sees that it must wake {_lanes(asleep)}", self._with(producer)
        return f"sees {_lanes([n for n, _ in self._jobs()])} active", self._with(producer)

    def wake(self) -> tuple[str, State] | None:
        """Make the next lane active, or wait for who has it."""
        producer = self._producer
        assert producer.asleep
        lane, *rest = producer.asleep
        if self._is_stale(("lane", lane)):
            return f"cannot wake {name(lane)}, written since its snapshot", self._again()
        if locked(self._state, ("lane", lane)):
            return None
        row = self._state.lanes[lane]._replace(active=True, attempt=0)
        producer = producer._replace(
            asleep=tuple(rest),
            step=_next(tuple(rest)),
            locks=(*producer.locks, ("lane", lane)),
            changes=(*producer.changes, ("lane", lane, row)),
        )
        return f"wakes {name(lane)}", self._with(producer)

    def commit(self) -> tuple[str, State]:
        counts = dict(self._jobs())
        jobs = [
            ("job", lane, position)
            for lane, before in self._producer.taken
            for position in range(before + 1, before + counts[lane] + 1)
        ]
        named = " and ".join(place(lane, position) for _, lane, position in jobs)
        state = commit(self.done(self._state), (*self._producer.changes, *jobs))
        return f"adds {named} to the log and commits", state

    def done(self, state: State) -> State:
        """Go on to the next batch: this one is committed, or was given up."""
        return with_producer(state, self._number, Producer(self._producer.batches[1:]))

    def _take(self, producer: Producer, lane: int, before: int) -> Producer:
        taken = (*producer.taken, (lane, before))
        step = "reserving"
        if len(taken) == len(self._batch.jobs):
            step = "looking" if producer.asleep is None else _next(producer.asleep)
        return producer._replace(taken=taken, step=step)

    def _jobs(self) -> tuple[tuple[int, int], ...]:
        jobs = self._batch.jobs
        return tuple(sorted(jobs)) if self._rules.tails_locked_in_order else jobs

    def _is_stale(self, row: tuple[str, int]) -> bool:
        snapshot = self._producer.snapshot
        return snapshot is not None and row in snapshot.stale

    def _again(self) -> State:
        """Fail to serialize: all is rolled back, and the same batch begins anew."""
        return self._with(Producer(self._producer.batches))

    def _with(self, producer: Producer) -> State:
        return with_producer(self._state, self._number, producer)


def _next(asleep: tuple[int, ...]) -> str:
    return "waking" if asleep else "committing"


def _places(lane: int, before: int, count: int) -> str:
    return " and ".join(place(lane, before + n) for n in range(1, count + 1))


def _lanes(lanes: list[int] | tuple[int, ...]) -> str:
    return " and ".join(f"lane {name(lane)}" for lane in lanes)

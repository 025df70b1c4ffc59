"""The state of the modelled world: committed rows, open transactions, and what is true of them.

Everything is a tuple, so that states can be compared and remembered.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.model.rules import Batch, Bounds

Row = tuple[str, int]
"""What a transaction can lock: ("tail", lane), ("lane", lane) or ("lease", serial)."""

Change = tuple[Any, ...]
"""A row as a transaction will leave it, by the name of its kind; see ``database.commit``."""


class Lane(NamedTuple):
    """The consumers' row of a keyed lane."""

    active: bool = False
    head: int = 1
    cursor: int = 1
    token: int = 0  # none
    attempt: int = 0  # of its head
    suspect_last: int = 0

    @property
    def is_claimable(self) -> bool:
        return self.active and not self.token


class Lease(NamedTuple):
    """A row of leases. Its serial is not in the real table: no two leases ever share it."""

    token: int
    serial: int
    lane: int
    alone: bool


class Truth(NamedTuple):
    """What really happened in a lane, whatever its rows say. Nobody in the model reads it."""

    ended: tuple[int, ...] = ()  # done or dead
    tries: int = 0  # of its head, those that count
    suspect_last: int = 0


class Snapshot(NamedTuple):
    """What a transaction at repeatable read goes on seeing, and which rows changed since."""

    lanes: tuple[Lane, ...]
    stale: frozenset[Row] = frozenset()


class Producer(NamedTuple):
    """A producer, its open transaction, and the batches it has still to enqueue."""

    batches: tuple[Batch, ...]
    step: str = "idle"
    locks: tuple[Row, ...] = ()
    changes: tuple[Change, ...] = ()
    snapshot: Snapshot | None = None
    read: tuple[tuple[int, int], ...] = ()  # lane, its last position as read before the lock
    taken: tuple[tuple[int, int], ...] = ()  # lane, the position before those taken
    asleep: tuple[int, ...] | None = None  # the lanes to wake; None before it has looked


class Held(NamedTuple):
    """What a worker knows of its lease. The serial is there to judge it by."""

    token: int
    serial: int
    lane: int
    first: int
    last: int
    alone: bool
    jobs: tuple[int, ...]  # the positions of which it was given a job
    tail: int  # where the claim saw the tail


class Worker(NamedTuple):
    """A worker, its open transaction, and the lease it believes to hold."""

    step: str = "idle"
    locks: tuple[Row, ...] = ()
    changes: tuple[Change, ...] = ()
    held: Held | None = None
    tails: tuple[int, ...] = ()  # as the statement that claims sees them
    empty: int = -1  # the lane that it found so
    adds: tuple[int, int] | None = None  # lane and position of a job to be enqueued with a settle
    unburied: tuple[int, int] | None = None  # a lane and position still to be written as dead


class State(NamedTuple):
    """All there is at one moment."""

    lanes: tuple[Lane, ...]
    tails: tuple[int, ...]
    log: tuple[tuple[int, ...], ...]  # of each lane its jobs' positions, in the order of commits
    dead: tuple[tuple[int, ...], ...]
    leases: tuple[Lease, ...]
    truths: tuple[Truth, ...]
    producers: tuple[Producer, ...]
    workers: tuple[Worker, ...]
    followers: int  # how many jobs may still be enqueued with a settle
    wrongs: tuple[tuple[str, str], ...] = ()  # the promises that a step has broken, and how


def start(bounds: Bounds) -> State:
    """Return the world before anything has happened: lanes that were made and are empty."""
    lanes = bounds.lanes
    return State(
        lanes=(Lane(),) * lanes,
        tails=(0,) * lanes,
        log=((),) * lanes,
        dead=((),) * lanes,
        leases=(),
        truths=(Truth(),) * lanes,
        producers=tuple(Producer(batches) for batches in bounds.producers),
        workers=(Worker(),) * bounds.workers,
        followers=bounds.followers,
    )


def likeness(state: State) -> State:
    """Return what a state has in common with those where producers or workers changed places.

    Any order will do that is the same for the same ones; that of hashes is quick.
    """
    return state._replace(
        producers=tuple(sorted(state.producers, key=hash)),
        workers=tuple(sorted(state.workers, key=hash)),
    )


def is_end(state: State) -> bool:
    """Say whether all is done: every job that was accepted has ended, and every lane sleeps."""
    return (
        not state.leases
        and all(not lane.active for lane in state.lanes)
        and all(not one.batches and one.step == "idle" for one in state.producers)
        and all(one.step == "idle" and one.held is None for one in state.workers)
        and all(
            set(log) <= set(truth.ended) for log, truth in zip(state.log, state.truths, strict=True)
        )
    )

"""Lanes and queues as a person sees them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from inturn.model import bounds

NODE = "node:"
"""What the name of a node's queue begins with."""


class OnDead(StrEnum):
    """What a keyed lane does when its head is buried: go on, or halt until a person decides."""

    SKIP = "skip"
    HALT = "halt"


class Replay(StrEnum):
    """What of a key runs again after a crash: the end of its lane, in order, or never a job whose
    successor has begun.
    """

    TAIL = "tail"
    NONE = "none"  # the next job of a key starts only after its predecessor is settled


class SuspectsRule(StrEnum):
    """How a job runs whose worker was lost: alone in its worker, or again like any other."""

    ALONE = "alone"
    AGAIN = "again"  # alone only if its lease runs out a second time


class LaneState(StrEnum):
    """What a lane is doing."""

    IDLE = "idle"  # nothing to do
    READY = "ready"  # may be claimed
    GATED = "gated"  # its head's round is not open yet
    LEASED = "leased"  # keyed: a worker has its head
    SLEEPING = "sleeping"  # its head waits to retry
    HALTED = "halted"  # its head is dead and a person must decide
    PAUSED = "paused"


class LaneView(msgspec.Struct, frozen=True, kw_only=True):
    """One lane: how long its line is and what it waits for. ``key`` is None for open lanes."""

    id: int
    queue: str
    key: str | None
    kind: str
    priority: int
    round: int
    state: LaneState
    head: int  # of a keyed lane: the first position that has not ended
    cursor: int
    last: int
    depth: int  # positions not claimed yet
    ready_at: datetime | None = None
    halted_job: UUID | None = None
    paused_by: str | None = None


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a queue behaves."""

    on_dead: OnDead = OnDead.SKIP
    depth_max: int | None = None
    lane_depth_max: int | None = None
    keep_done_seconds: float = bounds.KEEP_DONE_SECONDS_DEFAULT
    aging_seconds: float = bounds.AGING_SECONDS_DEFAULT  # waiting that outweighs one priority
    replay: Replay = Replay.TAIL
    suspects: SuspectsRule = SuspectsRule.ALONE
    running_max: int | None = None  # jobs that run at once, over all workers
    rate: int | None = None  # jobs that start within any ``rate_seconds``, over all workers
    rate_seconds: float | None = None
    local: bool = False  # only workers that name it claim from it

    @property
    def is_limited(self) -> bool:
        """Whether anything limits what may run."""
        return self.running_max is not None or self.rate is not None


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's depth and age, read from its lanes and never by counting jobs."""

    name: str
    settings: QueueSettings
    gate: int
    paused_by: str | None
    waiting: int  # positions not claimed yet, gated ones among them
    running: int
    scheduled: int
    retrying: int
    blocked: int
    dead: int
    lanes: int  # lanes with something to do
    halted: int
    oldest_at: datetime | None  # when the oldest waiting job was accepted
    limit_reached: str | None = None  # which of its limits is reached, in words


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's gate after it was asked to advance."""

    round: int  # the highest open round
    advanced: bool
    unfinished: bool  # jobs of open rounds keep it where it is
    exhausted: bool  # nothing unfinished, and no later round waits

"""What happened, written down by the actors as they saw it, outside the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from inturn.model.job import JobState, JobView, NewJob, Ticket
from inturn.model.lane import Gate, QueueSettings
from inturn.model.lease import Claim, Lease, Reclaimed
from inturn.policy.settlement import Settlement


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that an actor did and what the store answered, at the clock's time."""

    at: datetime


@dataclass(frozen=True, kw_only=True)
class Configured(Event):
    queue: str
    settings: QueueSettings


@dataclass(frozen=True, kw_only=True)
class Accepted(Event):
    jobs: Sequence[NewJob]
    tickets: Sequence[Ticket]


@dataclass(frozen=True, kw_only=True)
class Refused(Event):
    """A batch that must have left nothing behind. Without an error its producer rolled back.

    ``settled``: jobs that the same transaction had settled before. Those of them that were parked
    may have been gone by then: their places in the log were pruned.
    """

    jobs: Sequence[NewJob]
    error: Exception | None
    settled: frozenset[UUID] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Claimed(Event):
    queue: str
    worker: str
    jobs_max: int
    suspects_max: int
    kinds: Collection[str] | None
    claims: Sequence[Claim]


@dataclass(frozen=True, kw_only=True)
class Settled(Event):
    worker: str
    settlements: Sequence[Settlement]


@dataclass(frozen=True, kw_only=True)
class SettleRefused(Event):
    worker: str
    settlements: Sequence[Settlement]


@dataclass(frozen=True, kw_only=True)
class Extended(Event):
    leases: Sequence[Lease]
    lost: Sequence[Lease]
    lease_seconds: float


@dataclass(frozen=True, kw_only=True)
class Crashed(Event):
    """A worker forgot everything. The store learns of it when the leases run out."""

    worker: str


@dataclass(frozen=True, kw_only=True)
class TakenBack(Event):
    """Every lease that had run out by now was reclaimed."""

    reclaimed: Reclaimed


@dataclass(frozen=True, kw_only=True)
class Cancelled(Event):
    job: UUID
    state: JobState | None  # None: the store knows no such job


@dataclass(frozen=True, kw_only=True)
class DeadRetried(Event):
    asked: Sequence[UUID]
    put_back: Sequence[UUID]


@dataclass(frozen=True, kw_only=True)
class DeadDropped(Event):
    asked: Sequence[UUID]
    dropped: Sequence[UUID]


@dataclass(frozen=True, kw_only=True)
class LaneDecided(Event):
    queue: str
    key: str
    decision: str  # retry, skip or drop
    job: UUID | None  # None: the store said that the lane is not halted


@dataclass(frozen=True, kw_only=True)
class Held(Event):
    """A queue or a lane was paused, or let go on."""

    queue: str
    key: str | None
    paused: bool


@dataclass(frozen=True, kw_only=True)
class GateOpened(Event):
    queue: str
    round: int  # as far as the store says it is open now


@dataclass(frozen=True, kw_only=True)
class GateAdvanced(Event):
    queue: str
    gate: Gate


@dataclass(frozen=True, kw_only=True)
class PrunedAll(Event):
    """Finished history past its time was taken away."""


@dataclass(frozen=True, kw_only=True)
class Audited(Event):
    """Every job that was ever named, as the store shows it; one it does not know is None."""

    views: Mapping[UUID, JobView | None]


@dataclass(frozen=True, kw_only=True)
class TablesChecked(Event):
    complaints: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Drained(Event):
    """The end: everything was let go on, and time enough has passed for all to finish."""

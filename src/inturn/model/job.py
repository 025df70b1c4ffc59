"""A job: what is to be done, with its options. It never changes once accepted."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from inturn.model import bounds
from inturn.model.ids import new_id


class NewJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job as its producer describes it. ``payload`` is JSON text (see ``encode_payload``).

    - ``key``: jobs of one key run one at a time, in the order they were accepted;
    - ``after``: jobs that must be done first, each in the store or in the same batch;
    - ``after_failed``: instead of ``after``: a reaction, which runs when one of these jobs is
      buried or cancelled, and is cancelled when all are done;
    - ``round``: waits until the queue's gate has opened as far;
    - ``priority``: higher first, each step worth the queue's ``aging_seconds`` of waiting;
    - ``delay_seconds``: takes its place in line only when it is due;
    - ``dedupe``: a second job with this key is the first one, while ``dedupe_seconds`` last;
    - ``unsent``: no store has ever seen its ``id``, so that nobody need look for it there. Only who
      makes a job and sends it in the same breath can say so.
    """

    kind: str
    payload: str = "null"
    queue: str = "default"
    key: str | None = None
    priority: int = 0
    round: int = 0
    delay_seconds: float = 0.0
    attempts_max: int = bounds.ATTEMPTS_DEFAULT
    timeout_seconds: float | None = None
    after: frozenset[UUID] = frozenset()
    after_failed: frozenset[UUID] = frozenset()
    dedupe: str | None = None
    dedupe_seconds: float = bounds.DEDUPE_SECONDS_DEFAULT
    id: UUID = msgspec.field(default_factory=new_id)
    unsent: bool = False

    def waits_for(self) -> frozenset[UUID]:
        """Return the jobs that it waits for, to be done or to fail."""
        return self.after or self.after_failed


class Ticket(msgspec.Struct, frozen=True, gc=False):
    """What a producer gets back: the job's id, and its place if it has one yet.

    ``lane`` and ``position`` are None for a job that is delayed or waits for others.
    ``duplicate`` says that the dedupe key was known, and that this is the first job's ticket.
    """

    id: UUID
    lane: int | None = None
    position: int | None = None
    duplicate: bool = False


class Job(msgspec.Struct, frozen=True, gc=False):
    """A job as the store keeps it."""

    id: UUID
    queue: str
    key: str | None
    kind: str
    payload: str
    priority: int
    round: int
    attempts_max: int
    timeout_seconds: float | None
    enqueued_at: datetime


class LeasedJob(Job, frozen=True, gc=False):
    """A job in a worker's hands: its place in the lease and which attempt this is (from 1)."""

    position: int
    attempt: int


class JobState(StrEnum):
    """Where a job is, is its state."""

    WAITING = "waiting"
    BLOCKED = "blocked"
    RUNNING = "running"
    SCHEDULED = "scheduled"
    RETRYING = "retrying"
    DEAD = "dead"
    CANCELLED = "cancelled"
    DONE = "done"


UNFINISHED = [one for one in JobState if one not in (JobState.DONE, JobState.CANCELLED)]
"""The states of a job that may still run: by itself, or when a person retries it."""


class AttemptError(msgspec.Struct, frozen=True, kw_only=True):
    """One failed attempt: which, when, on which worker, what went wrong, and where.

    A job keeps its last 20; ``traceback`` is kept of the first of these and of the last. ``number``
    counts all errors of the job, so one less than the first kept one's were not kept.
    """

    attempt: int
    at: datetime
    worker: str
    error: str
    number: int = 1
    traceback: str | None = None  # None as well: nothing of the handler's own was on the stack


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a running job is, as its handler said: from 0 to 1, in words, and when."""

    fraction: float
    note: str = ""
    at: datetime


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job with its state and everything a person asks about it.

    ``ahead`` counts the jobs that stand before a waiting job in its lane: with a key it waits for
    them to end, without one they are only claimed before it. ``run_at`` is when a
    scheduled or retrying job is due. ``waits_for`` are the jobs a blocked one still waits for:
    to be done, or, if ``is_reaction``, for the first of them to fail. Of more than 100 it names the
    first 100; ``waits_for_count`` says how many there are.
    ``attempt`` is the number of attempts counted so far.
    """

    job: Job
    state: JobState
    lane: int | None = None
    position: int | None = None
    ahead: int | None = None
    run_at: datetime | None = None
    attempt: int = 0
    errors: tuple[AttemptError, ...] = ()
    worker: str | None = None
    leased_until: datetime | None = None
    waits_for: tuple[UUID, ...] = ()
    waits_for_count: int = 0
    is_reaction: bool = False
    suspect: bool = False
    progress: Progress | None = None  # of a running job whose handler says how far it is
    died_at: datetime | None = None
    cancelled_by: str | None = None
    reason: str | None = None  # why it is dead or cancelled


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A job set aside for a person, with the history of its errors."""

    job: Job
    attempts: int
    errors: tuple[AttemptError, ...]
    reason: str
    died_at: datetime

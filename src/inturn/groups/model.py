"""A group as data: its steps, their actions, the nodes they run on, and their states."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from inturn.model.lane import NODE

QUEUE = "groups"  # of the jobs that advance groups; a step's is its node's
STEPS_MAX = 20_000
EDGES_MAX = 500_000  # pairs of a step and one that it comes after
NAME_CHARS_MAX = 200
TEXT_CHARS_MAX = 1024 * 1024  # of an action
CONCURRENCY_MAX = 10_000
CONCURRENCY_DEFAULT = 10  # of a node: one that hangs leaves a worker slots for the others
UNDO_ATTEMPTS_DEFAULT = 100  # of a built-in action: with the pauses between them, some hours
TIMEOUT_SECONDS_DEFAULT = 60.0  # of a built-in action


class Effect(StrEnum):
    """What a verify found out about a step.

    - ``APPLIED``: all of it is there;
    - ``NOT_APPLIED``: nothing of it is there;
    - ``RUNNING``: it is still under way; look again later;
    - ``CANNOT_TELL``: neither is certain; a part of it may be there.
    """

    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    RUNNING = "running"
    CANNOT_TELL = "cannot_tell"


class GroupState(StrEnum):
    """What a group is doing, or how it ended."""

    RUNNING = "running"  # forward
    STOPPING = "stopping"  # a step failed; what runs is waited for, and then the undo begins
    UNDOING = "undoing"
    DONE = "done"
    UNDONE = "undone"
    STUCK = "stuck"  # a person must decide about a step


class StepState(StrEnum):
    """Where a step is, on its way forward or back."""

    PENDING = "pending"  # nothing of it is there; it waits for others, for its turn, or to retry
    RUNNING = "running"  # it may be applied from here on: this is written before it begins
    UNKNOWN = "unknown"  # it began, and how it ended must be found out before anything runs
    APPLIED = "applied"
    NOT_APPLIED = "not_applied"  # it failed, and nothing of it is there
    POSSIBLY_APPLIED = "possibly_applied"  # it failed, and its undo runs
    CANCELLED = "cancelled"  # it never ran
    SKIPPED = "skipped"  # a person said to go on without it
    TO_UNDO = "to_undo"
    UNDOING = "undoing"
    UNDO_UNKNOWN = "undo_unknown"
    UNDONE = "undone"
    NOT_UNDONE = "not_undone"
    UNDO_SKIPPED = "undo_skipped"  # a person said to leave it as it is

    @property
    def is_uncertain(self) -> bool:
        """Whether it has begun and its end is not known."""
        return self in (StepState.RUNNING, StepState.UNKNOWN)

    @property
    def is_failed(self) -> bool:
        """Whether its way forward ended in failure."""
        return self in (StepState.NOT_APPLIED, StepState.POSSIBLY_APPLIED)

    @property
    def is_being_undone(self) -> bool:
        """Whether its undo is to run, or runs."""
        return self in (StepState.TO_UNDO, StepState.UNDOING, StepState.UNDO_UNKNOWN)

    @property
    def is_passed(self) -> bool:
        """Whether what comes after it may run."""
        return self in (StepState.APPLIED, StepState.SKIPPED)


NOT_UNDONE = (StepState.NOT_UNDONE, StepState.UNDO_SKIPPED)


class Sql(msgspec.Struct, frozen=True, tag="sql"):
    """SQL statements for a PostgreSQL or SQLite node, which run in one transaction."""

    text: str


class Request(msgspec.Struct, frozen=True, tag="http"):
    """An HTTP request. A path alone is added to the node's address."""

    method: str
    url: str
    json: msgspec.Raw = msgspec.Raw(b"null")
    headers: dict[str, str] = {}


class Command(msgspec.Struct, frozen=True, tag="run"):
    """A program with its arguments, run without a shell by a worker."""

    arguments: tuple[str, ...]


class JobCall(msgspec.Struct, frozen=True, tag="job"):
    """A job of the app. ``attempts`` and ``timeout`` are as its declaration says."""

    kind: str
    payload: str
    attempts: int | None = None
    timeout: float | None = None


Action = Sql | Request | Command | JobCall


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """Where steps run: a name, an address, how many run there at once over all workers.

    ``address`` is kept as it was written: ``${NAME}`` in it is read where the worker runs.
    ``concurrency`` None: as many as the workers have slots. ``local``: only workers that were
    started for it serve it.
    """

    name: str
    address: str | None = None
    concurrency: int | None = CONCURRENCY_DEFAULT
    local: bool = False


def queue_of(node: str) -> str:
    """Return the queue of a node."""
    return NODE + node


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a group, as it was defined. ``after``: numbers of the steps it comes after."""

    name: str
    node: str
    do: Action
    undo: Action | None = None
    verify: Action | None = None
    after: tuple[int, ...] = ()
    irreversible: bool = False
    idempotent: bool = False
    attempts: int
    undo_attempts: int
    timeout: float | None = None
    undo_timeout: float | None = None


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A whole group, as it was defined. A step's number is its place in ``steps``."""

    name: str
    steps: tuple[Step, ...]


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """A step with all that is known about it."""

    group: str = ""  # its name, in a list of steps of several groups
    number: int
    name: str
    node: str
    state: StepState
    after: tuple[str, ...]
    attempts: int = 0
    attempts_max: int
    undo_attempts: int = 0
    undo_attempts_max: int
    irreversible: bool = False
    answer: str | None = None  # of the last verify
    error: str | None = None
    why: str | None = None  # a person skipped it
    began_at: datetime | None = None
    ended_at: datetime | None = None
    undo_began_at: datetime | None = None
    undo_ended_at: datetime | None = None
    job: str
    undo_job: str | None = None

    @property
    def seconds(self) -> float | None:
        """How long it took, from the first attempt to its end."""
        if self.began_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.began_at).total_seconds()


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """A group with all that is known about it, but for its steps."""

    id: str
    name: str
    state: GroupState
    pivot: str | None = None  # the irreversible step that began: from there it only goes forward
    paused_by: str | None = None
    reason: str | None = None  # why it does not go forward any more
    step_count: int
    ended: int  # steps whose way forward, or back, has ended
    not_undone_count: int = 0  # of them, those that could not be undone, or were left as they are
    created_at: datetime
    ended_at: datetime | None = None

    @property
    def percent(self) -> int:
        """How much of what is to be done is done; 100 only when the group has ended."""
        if self.state in (GroupState.DONE, GroupState.UNDONE):
            return 100
        return min(99, self.ended * 100 // max(1, self.step_count))

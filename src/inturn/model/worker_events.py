"""What happens to a worker, as typed data for those who listen: the log, the command, a test.

A listener is called where it happens, on the worker's loop or a thread of its own, and should be
quick. Each event says which worker it is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import UUID

import msgspec


def _tag(name: str) -> str:
    """Name an event as JSON spells it: ``StoreBack`` is ``store_back``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


class WorkerEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=_tag):
    """Something happened to a worker, or to several processes of this name."""

    worker: str


class Counts(msgspec.Struct, kw_only=True):
    """What became of the jobs in a worker's hands."""

    done: int = 0
    failed: int = 0  # attempts that failed and are to be made again
    dead: int = 0
    released: int = 0  # given back before they were started, at a stop, or asked to come later
    lost: int = 0  # someone else's now: their lease ran out

    def add(self, other: Counts) -> None:
        """Count what another counted as well."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Started(WorkerEvent, frozen=True, kw_only=True):
    """A worker, or so many processes, works from now on. The store has no password.

    ``store_named_by``: the flag, the variable or the file that does, if it is not the app itself.
    ``store_left``: the one that the app names, if it is another.
    ``queues_unknown``: those that no job is declared on, and that the store does not have.
    ``queues_local``: of its jobs, which it leaves to workers that name them.
    """

    app: str
    store: str
    queues: tuple[str, ...]
    kinds: tuple[str, ...]
    concurrency: int
    processes: int
    version: str
    pid: int
    store_named_by: str | None = None
    store_left: str | None = None
    queues_unknown: tuple[str, ...] = ()
    queues_local: tuple[str, ...] = ()


class Failure(WorkerEvent, frozen=True, kw_only=True):
    """An attempt failed; ``traceback`` says where, if that is known."""

    job: UUID
    queue: str
    kind: str
    key: str | None
    attempt: int
    traceback: str | None = None


class JobDone(WorkerEvent, frozen=True, kw_only=True):
    """A job is done; told with ``--verbose`` only."""

    job: UUID
    queue: str
    kind: str
    key: str | None
    attempt: int
    seconds: float


class AttemptFailed(Failure, frozen=True, kw_only=True):
    """An attempt failed, and the job will run again after a delay."""

    attempts_max: int
    error: str
    delay_seconds: float


class Died(Failure, frozen=True, kw_only=True):
    """A job became a dead letter."""

    reason: str


class BuriedDeadly(WorkerEvent, frozen=True, kw_only=True):
    """A sweep made dead letters of so many jobs: their workers died of them, every time."""

    jobs: int


class LeasesLost(WorkerEvent, frozen=True, kw_only=True):
    """So many jobs are someone else's now.

    Of those that ran, some were cancelled; some go on, for a thread cannot be made to end.
    """

    jobs: int
    cancelled: int = 0
    going_on: int = 0


class StoreTroubled(WorkerEvent, frozen=True, kw_only=True):
    """The store could not do its work; it is asked again until it can."""

    error: str


class PruneFailed(WorkerEvent, frozen=True, kw_only=True):
    """What is finished and past its time could not be taken away; it is tried again in minutes."""

    error: str


class StoreBack(WorkerEvent, frozen=True, kw_only=True):
    """The store answers again, after so long a time."""

    seconds: float


class Stopping(WorkerEvent, frozen=True, kw_only=True):
    """Nothing more is claimed, and what runs is finished. ``why`` names who wanted it.

    ``is_member``: a process of several, which no second signal hurries. ``seconds_max``: so long
    what runs may take before it is given back, if there is a bound.
    """

    why: str
    running: int
    is_member: bool = False
    seconds_max: float | None = None


class StoppingNow(WorkerEvent, frozen=True, kw_only=True):
    """What runs is given back and not waited for."""

    why: str


class MemberDied(WorkerEvent, frozen=True, kw_only=True):
    """A process of several ended by itself; ``restart_seconds`` later another takes its place.

    ``pid``: 0 if it could not even be started. ``restart_seconds``: None if none does: it was the
    first and had not begun, or this was a drain.
    """

    pid: int
    how: str
    restart_seconds: float | None


class Stopped(WorkerEvent, frozen=True, kw_only=True):
    """A worker, or several processes, has ended.

    ``members_died``: so many processes ended without their last report, so that the
    counts are the least that was done.
    """

    counts: Counts
    seconds: float
    members_died: int = 0


class LeftBehind(WorkerEvent, frozen=True, kw_only=True):
    """Handlers left threads, tasks or processes that went on when all was done.

    The process was ended without waiting for them.
    """

    names: tuple[str, ...]


Listener = Callable[[WorkerEvent], None]

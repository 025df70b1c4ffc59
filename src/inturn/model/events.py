"""What happens in an executor, as typed data for those who listen: the log, the metrics, a test.

A listener is called on the thread where the thing happened. ``Accepted`` and ``Ran`` are made only
when someone listens, for there is one of each for every job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec


class Opened(msgspec.Struct, frozen=True):
    """An executor takes jobs from now on. ``depths`` reads how many wait in each shard."""

    shards: int
    depths: Callable[[], Sequence[int]]


class Accepted(msgspec.Struct, frozen=True):
    """A job has its place in line."""

    key: str
    shard: int


class Refused(msgspec.Struct, frozen=True):
    """There was no room for a job, and none came free in time.

    Of jobs that are refused together there is one for each. ``length`` and ``capacity`` are of what
    was full, which may be another's shard, or all shards.
    """

    key: str
    shard: int
    length: int
    capacity: int


class Ran(msgspec.Struct, frozen=True):
    """An attempt ended, well or not."""

    key: str
    shard: int
    attempt: int
    seconds: float
    error: BaseException | None


class Retried(msgspec.Struct, frozen=True):
    """An attempt failed, and the job will run again after a delay."""

    key: str
    shard: int
    attempt: int
    delay_seconds: float
    error: BaseException


class Failed(msgspec.Struct, frozen=True):
    """A job failed for good. ``handled``: an error handler is told too."""

    key: str
    shard: int
    attempts: int
    error: BaseException
    handled: bool


class Cancelled(msgspec.Struct, frozen=True):
    """A job was cancelled before it ended well."""

    key: str
    shard: int
    attempts: int
    error: BaseException
    handled: bool


class Halted(msgspec.Struct, frozen=True):
    """A key was halted on a job that failed for good; ``left`` jobs behind it did not run."""

    key: str
    shard: int
    error: str
    left: int


class HandlerFailed(msgspec.Struct, frozen=True):
    """The error handler itself failed on a job of this key."""

    key: str
    error: BaseException


class Stopping(msgspec.Struct, frozen=True):
    """An executor takes no more jobs, and drains what it has."""

    waiting: int
    keys: int


class Aborted(msgspec.Struct, frozen=True):
    """An executor gave up draining: it cancelled what waited, and asked what runs to end."""

    cancelled: int
    asked: int  # a def does not hear it, and may end well
    why: str


class Stopped(msgspec.Struct, frozen=True):
    """An executor has ended everything it accepted, but for a ``def`` that outlives its loop."""

    depths: Callable[[], Sequence[int]]


Event = (
    Opened
    | Accepted
    | Refused
    | Ran
    | Retried
    | Failed
    | Cancelled
    | Halted
    | HandlerFailed
    | Stopping
    | Aborted
    | Stopped
)

Listener = Callable[[Event], None]

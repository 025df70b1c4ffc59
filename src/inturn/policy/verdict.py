"""What may become of a job that was run: done, retry, bury or release."""

from __future__ import annotations

import msgspec


class Done(msgspec.Struct, frozen=True, tag=True):
    """The job did what it was for. ``result`` is JSON text to keep for a while, or nothing.

    ``result_lost`` is kept in its place where there was one that cannot be: why.
    """

    result: str | None = None
    result_seconds: float | None = None  # how long the result is kept; None: the default
    result_lost: str | None = None


class Retry(msgspec.Struct, frozen=True, tag=True):
    """The attempt failed; run the job again after a delay.

    ``counted=False`` gives the attempt back: the job was not to blame (it is still running
    elsewhere, an outside API said "later"). ``traceback`` says where it failed, if that is known.
    """

    delay_seconds: float
    error: str
    counted: bool = True
    traceback: str | None = None


class Bury(msgspec.Struct, frozen=True, tag=True):
    """The job cannot succeed; set it aside for a person.

    ``error`` is what went wrong in this attempt, ``reason`` why the job is dead: the error itself,
    if nothing else is said. ``traceback`` says where it failed, if that is known.
    """

    error: str
    reason: str | None = None
    traceback: str | None = None


class Release(msgspec.Struct, frozen=True, tag=True):
    """The job was not started; give it back, its attempt uncounted."""


Verdict = Done | Retry | Bury | Release

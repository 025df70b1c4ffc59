"""What is told about a job that did not end well: to the error handler, once for each job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that failed for good, or was cancelled: whose it was, and with what it ended.

    ``error`` is what the job raised, ``JobCancelled``, or ``KeyHalted`` if a job before it failed.
    """

    key: str
    shard: int
    attempts: int
    error: BaseException


ErrorHandler = Callable[[Failure], object]

"""What is told about a job that did not end well: to the error handler, once for each job."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from inturn.model.errors import BadInput


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


def check_error_handler(given: object) -> None:
    """Refuse what cannot be called with a failure, or would have to be awaited."""
    if given is not None and not callable(given):
        raise BadInput("error_handler must be a function that takes a Failure.")
    if inspect.iscoroutinefunction(given):
        raise BadInput("error_handler must be a def, not an async def: nobody would await it.")

"""What is told about a job that did not end well, once for each; and who may be told of jobs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from inturn.model.admissible import listed, shown
from inturn.model.errors import BadInput
from inturn.model.events import Listener


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


def checked_listeners(given: Iterable[Listener]) -> list[Listener]:
    """Return listeners; refuse what cannot be called with an event, or would have to be awaited."""
    listeners = listed("listeners", given)
    for one in listeners:
        if not callable(one):
            raise BadInput(f"a listener must be a function that takes an event, not {shown(one)}.")
        if inspect.iscoroutinefunction(one):
            raise BadInput("a listener must be a def, not an async def: nobody would await it.")
    return listeners

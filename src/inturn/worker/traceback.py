"""Where a handler failed: its traceback, without the frames of whoever called it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Iterator
from pathlib import Path
from traceback import TracebackException

import inturn
from inturn.executor import slots

FRAMES_MAX = 50  # of each error: the innermost

_CALLERS = tuple(
    str(place)
    for place in (
        *(Path(inturn.__file__).parent / layer for layer in ("worker", "queue", "executor")),
        Path(asyncio.__file__).parent,
        Path(concurrent.futures.__file__).parent,
        Path(threading.__file__),
    )
)


def trace_of(error: BaseException) -> str | None:
    """Return an error's traceback from the handler on, with those of its causes.

    None if nothing of the handler's own was on the stack: then the error says it all.
    """
    try:
        whole = TracebackException.from_exception(error, limit=-FRAMES_MAX)
        parts = list(_parts(whole))
        for part in parts:
            while part.stack and part.stack[0].filename.startswith(_CALLERS):
                del part.stack[0]
            if part.stack and part.stack[-1].filename == slots.__file__:
                del part.stack[-1]  # it threw a cancellation into the handler
        if not any(part.stack for part in parts):
            return None
        return "".join(whole.format()).rstrip()
    except BaseException:  # an error of the handler's own making may fail at anything
        return None


def _parts(whole: TracebackException) -> Iterator[TracebackException]:
    """Yield an error and all that led to it."""
    left: list[TracebackException | None] = [whole]
    while left:
        part = left.pop()
        if part is not None:
            yield part
            left += [part.__cause__, part.__context__, *(part.exceptions or ())]

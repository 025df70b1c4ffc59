"""The end of a worker's event loop, which cancels all that is on it: the worker and its jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar, copy_context
from typing import Any

_IN_WORK: ContextVar[bool] = ContextVar("inturn_in_work", default=False)


class LoopEnd:
    """Tells jobs that were cancelled with their worker from those that a handler cancelled.

    Who ends a loop, as ``asyncio.run`` does when its main coroutine has ended, cancels the worker
    and the slots where jobs run in one instant, so a job may hear of it first. A handler can do the
    same. Who it was is known by the context in which the worker's own steps were cancelled: jobs,
    and what they start, have theirs from the worker.
    """

    def __init__(self) -> None:
        self._work: _Work | None = None

    @property
    def has_come(self) -> bool:
        """Whether the worker's steps were cancelled from outside."""
        work = self._work
        return work is not None and work.is_cut_outside and work.cancelling() > 0

    @property
    def is_of_a_job(self) -> bool:
        """Whether a handler, or what one has started, cancelled the worker's steps."""
        return self._work is not None and self._work.is_cut_by_job

    def begin(self, steps: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let the worker's steps run, in a context by which they and their jobs are known."""
        context = copy_context()
        context.run(_IN_WORK.set, True)
        # Not by the loop's factory: what that makes would not say who cancels it.
        self._work = _Work(steps, loop=asyncio.get_running_loop(), context=context)
        return self._work


class _Work(asyncio.Task[None]):
    """The task of a worker's steps."""

    is_cut_outside = is_cut_by_job = False

    def cancel(self, msg: Any | None = None) -> bool:
        """Note who cancels it: a timer of its own, which it outlives, is no task."""
        self.is_cut_outside = not _IN_WORK.get()
        if not self.is_cut_outside and asyncio.current_task(self.get_loop()) is not None:
            self.is_cut_by_job = True
        return super().cancel(msg)

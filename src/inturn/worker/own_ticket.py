"""A ticket of a durable executor, which nobody waits for without end if it would never come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from inturn.model.errors import ExecutorClosed, WaitsForItself
from inturn.model.job import JobState, LeasedJob
from inturn.model.job import Ticket as Accepted
from inturn.queue.app import App
from inturn.queue.job import Call
from inturn.queue.ticket import Ticket

Result = TypeVar("Result", covariant=True)

_ENDED = (JobState.DONE, JobState.DEAD, JobState.CANCELLED)


class OwnTicket(Ticket[Result]):
    """A ticket that knows whether one of the executor's jobs asks for its result: ``current``.

    ``closed``: says why the executor runs nothing any more.
    """

    __slots__ = ("_current", "_executor_closed", "_key", "_queue")

    def __init__(
        self,
        app: App,
        ticket: Ticket[Result],
        call: Call[Result],
        current: Callable[[], LeasedJob | None],
        closed: Callable[[], ExecutorClosed | None],
    ) -> None:
        accepted = Accepted(ticket.id, ticket.lane, ticket.position, ticket.is_duplicate)
        super().__init__(app, accepted, call.hint)
        self._key, self._queue, self._current = call.new.key, call.new.queue, current
        self._executor_closed = closed

    async def _result(self, timeout: float | None, ends_at: float | None) -> Result:
        if timeout is None and in_line(self._current(), self._queue, self._key):
            await self._check_ends()
        return await super()._result(timeout, ends_at)

    def _closed(self) -> ExecutorClosed | None:
        return self._executor_closed()

    async def _check_ends(self) -> None:
        """Refuse a wait without end: what has not ended is the caller, or stands behind it."""
        if (await self.status()).state not in _ENDED:
            raise WaitsForItself("result", self._key)


def in_line(job: LeasedJob | None, queue: str, key: str | None) -> bool:
    """Whether there is a job, and it is of a key's line in a queue."""
    return job is not None and (job.queue, job.key) == (queue, key)

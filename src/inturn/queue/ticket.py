"""A ticket: what a producer gets for a job, to ask about it later."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

from inturn.model.admissible import check_number
from inturn.model.errors import JobFailed, ResultCancelled, ResultTimeout
from inturn.model.job import JobState, JobView
from inturn.model.job import Ticket as Accepted
from inturn.queue.arguments import decode_result

if TYPE_CHECKING:
    from inturn.queue.app import App

Result = TypeVar("Result", covariant=True)


class Ticket(Generic[Result]):
    """A job that was accepted: its id, and its place in line if it has one yet."""

    __slots__ = ("_accepted", "_app", "_hint")

    def __init__(self, app: App, accepted: Accepted, hint: Any) -> None:
        self._app, self._accepted, self._hint = app, accepted, hint

    def accept(self, accepted: Accepted) -> None:
        self._accepted = accepted  # in a transaction that is about to commit

    @property
    def id(self) -> UUID:
        """The job's id."""
        return self._accepted.id

    @property
    def lane(self) -> int | None:
        """The lane it stands in; None while it is delayed or waits for others."""
        return self._accepted.lane

    @property
    def position(self) -> int | None:
        """Its position in the lane, if it stands in one."""
        return self._accepted.position

    @property
    def is_duplicate(self) -> bool:
        """Whether its dedupe key was known: then this is the first job's ticket."""
        return self._accepted.duplicate

    async def status(self) -> JobView:
        """Return the job with its state and everything else that is known about it."""
        return await self._app.run(lambda store: store.job(self.id))

    async def explain(self) -> str:
        """Say in a sentence why the job is where it is."""
        return await self._app.run(lambda store: store.explain(self.id))

    async def cancel(self, *, by: str = "its producer") -> JobState:
        """Cancel the job if it does not run yet; return the state it has now."""
        return await self._app.run(lambda store: store.cancel(self.id, by=by))

    async def result(self, timeout: float | None = None) -> Result:
        """Wait until the job is done and return what its handler returned.

        Raises ``JobFailed`` if it is dead, ``ResultCancelled`` if it was cancelled,
        ``ResultTimeout`` after ``timeout`` seconds, and ``ResultLost`` if what it returned could
        not be kept: too large, or no JSON. None if the handler returned nothing, or its result is
        no longer kept.
        """
        return await self._result(timeout, _end_of(timeout))

    async def _result(self, timeout: float | None, ends_at: float | None) -> Result:
        state, why = None, None
        while True:
            if state is not JobState.DONE:
                view = await self.status()
                state = view.state
            if state is JobState.DONE:
                found = await self._app.run(lambda store: store.result(self.id))
                result: Any = None if found is None else decode_result(found, self._hint)
                return result  # type: ignore[no-any-return]
            if state is JobState.DEAD:
                raise JobFailed(self.id, view.reason or "")
            if state is JobState.CANCELLED:
                raise ResultCancelled(self.id, view.reason or "")
            left = None if ends_at is None else ends_at - time.monotonic()
            if left is None or left > 0:
                endings = self._app.connections.endings()
                state = await endings.wait(self.id, view.job.queue, left)
            elif why is None:
                why = await self.explain()  # and once more: it may have ended meanwhile
            else:
                raise ResultTimeout(self.id, timeout or 0.0, why)

    def result_sync(self, timeout: float | None = None) -> Result:
        """Wait for the result in code that is not async: ``result`` says for what, and how long."""
        ends_at = _end_of(timeout)
        return self._app.sync(self._result(timeout, ends_at))

    def __repr__(self) -> str:
        place = "" if self.position is None else f", position {self.position} of lane {self.lane}"
        return f"<Ticket of job {self.id}{place}>"


def _end_of(timeout: float | None) -> float | None:
    """Return when a wait that begins now is over."""
    if timeout is None:
        return None
    check_number("timeout", timeout, 0.0, inf)
    return time.monotonic() + timeout

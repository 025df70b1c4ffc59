"""How a durable executor accepts jobs: to the end, so that it knows what is in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from inturn.model import events
from inturn.model.errors import InturnError
from inturn.model.job import NewJob
from inturn.queue.app import App
from inturn.queue.sending import send
from inturn.queue.ticket import Ticket
from inturn.worker.ends import ENDED, Ends
from inturn.worker.store_room import StoreRoom
from inturn.worker.submission import Submission

_SUBMITTER = "its submitter, who was cancelled"


class Intake:
    """What is on its way into the store, or out of it again because its submitter was cancelled.

    Both go on to their end, however often who waits for them is cancelled: until then they are on
    their way, and a stop waits for them.
    """

    def __init__(self, app: App, ends: Ends) -> None:
        self._app, self._ends = app, ends
        self._under_way: set[asyncio.Future[Any]] = set()  # or they might be collected

    async def accept(self, submission: Submission, room: StoreRoom) -> list[Ticket[Any]]:
        """Submit what was let in. Cancelled meanwhile, be so when it is taken back.

        Cancelled once more, this does not wait for that.
        """
        jobs = submission.jobs
        self._ends.expect(jobs)
        accepting = asyncio.ensure_future(send(self._app, submission.calls))
        try:
            tickets = await asyncio.shield(accepting)
        except asyncio.CancelledError:
            submission.is_being_taken_back = True
            await self._see_through(self._take_back(accepting, submission, room))
            raise
        except BaseException:
            self._came_to_nothing(jobs, room)
            raise
        submission.tickets = tickets
        room.entered(jobs, accepted=True)
        self._ends.arrived(jobs)
        for job, ticket in zip(jobs, tickets, strict=True):
            if ticket.id != job.id:  # a duplicate
                self._ends.forget([job.id])
            self._ends.tell(events.Accepted(job.key or "", 0))
        return tickets

    async def give_up(self, submission: Submission) -> None:
        """See that nothing is left of what was cancelled on another loop, also if it was accepted
        before that was heard here.
        """
        await submission.known()
        for ticket in submission.tickets or ():
            if not ticket.is_duplicate:
                await self.withdraw(ticket, by=_SUBMITTER)

    async def withdraw(self, ticket: Ticket[Any], *, by: str) -> None:
        """Take back what was accepted and nobody waits for any more, if it has not begun."""
        await self._see_through(_taken_back(ticket, by=by))

    async def _see_through(self, work: Coroutine[Any, Any, Any]) -> None:
        """Await something that goes on to its end, though this is cancelled."""
        working = asyncio.ensure_future(work)
        self._under_way.add(working)
        working.add_done_callback(self._under_way.discard)
        await asyncio.shield(working)

    async def _take_back(
        self,
        accepting: asyncio.Future[list[Ticket[Any]]],
        submission: Submission,
        room: StoreRoom,
    ) -> None:
        """Cancel what is accepted, if it is; what has begun is waited for like any other."""
        begun: set[UUID] = set()
        try:
            tickets = await accepting
            for call in submission.calls:
                call.fate.is_over = True
            for ticket in tickets:
                if not ticket.is_duplicate and not await _taken_back(ticket, by=_SUBMITTER):
                    begun.add(ticket.id)
        except InturnError:
            pass  # it was not accepted
        finally:
            self._came_to_nothing(submission.jobs, room, save=begun)
            submission.end()

    def _came_to_nothing(
        self, jobs: Sequence[NewJob], room: StoreRoom, save: Collection[UUID] = ()
    ) -> None:
        """Wait no longer for what was not accepted, or was taken back; all but these."""
        room.entered(jobs, accepted=False)
        self._ends.arrived(jobs)
        self._ends.forget(job.id for job in jobs if job.id not in save)


async def _taken_back(ticket: Ticket[Any], *, by: str) -> bool:
    """Cancel a job if it does not run yet; say whether it has ended, as far as the store tells."""
    with suppress(InturnError):
        return await ticket.cancel(by=by) in ENDED
    return False

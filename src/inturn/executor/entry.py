"""How jobs get into an executor: at once, after a wait for room, or not at all."""

from __future__ import annotations

import asyncio
from threading import Event

from inturn.executor.admission import Offer
from inturn.executor.job_ends import JobEnds
from inturn.executor.ticket import LocalTicket
from inturn.executor.wakeups import LoopWakeup
from inturn.model import bounds, events
from inturn.model.errors import ExecutorClosed, KeyHalted, ShardFull, TooManyHalted


class Entry:
    """Lets jobs in while it is open. Whether it is, is looked at under the lock."""

    def __init__(self, ends: JobEnds, timeout: float) -> None:
        self.is_open = False
        self._ends, self._admission = ends, ends.admission
        self._timeout = timeout

    def enter(self, ticket: LocalTicket) -> bool:
        """Accept a job if there is room right now."""
        ends = self._ends
        with ends.lock:
            if not self.is_open:
                raise self.closed()
            if ends.halted:
                self._check_halted(ticket)
            is_accepted = self._admission.take(ticket)
        if is_accepted and ends.listeners:
            ends.tell_each(events.Accepted(ticket.key, ticket.shard))
        return is_accepted

    def enter_all(self, offer: Offer) -> bool:
        """Accept jobs if there is room for all of them right now."""
        with self._ends.lock:
            self._check_open(offer)
            self._admission.take_all(offer)
        if offer.is_accepted:
            self._tell_accepted(offer)
        return offer.is_accepted

    async def wait(self, offer: Offer, patience: float | None) -> None:
        """Wait until jobs are accepted, or raise why they were not."""
        patience = self._timeout if patience is None else patience
        if self._admission.never_fits(offer):
            patience = 0.0
        if patience:
            wakeup = offer.wakeup = LoopWakeup()
            if not self._stand_in_line(offer):
                try:
                    await wakeup.wait(patience)
                except asyncio.CancelledError:
                    self._take_back(offer)
                    raise
        self._leave_line(offer, patience)

    def wait_sync(self, offer: Offer, patience: float | None) -> None:
        """Wait on a thread; on the loop's own, only look once more."""
        patience = self._timeout if patience is None else patience
        if self._ends.is_here:
            patience = 0.0
        if patience:
            wakeup = offer.wakeup = Event()
            if not self._stand_in_line(offer):
                try:
                    wakeup.wait(patience)
                except BaseException:  # Ctrl-C
                    self._take_back(offer)
                    raise
        self._leave_line(offer, patience)

    def close(self) -> None:
        """Refuse jobs from now on, and who still waits for room."""
        ends = self._ends
        with ends.lock:
            if not self.is_open:
                return
            self.is_open = False
            self._admission.turn_away(self.closed())
            waiting, keys = self._admission.total, len(ends.lanes.by_key)
        ends.tell(events.Stopping(waiting, keys))

    def closed(self) -> ExecutorClosed:
        """Return the error for who comes too late."""
        return ExecutorClosed(
            "the executor was stopped and takes no more jobs. Make a new one, or stop it later."
        )

    def _stand_in_line(self, offer: Offer) -> bool:
        """Wait for room, unless there is some by now; say whether there was."""
        with self._ends.lock:
            self._check_open(offer)
            if not self._admission.take_all(offer):
                self._admission.wait(offer)
            return offer.is_accepted

    def _leave_line(self, offer: Offer, waited_seconds: float) -> None:
        """Return if an offer was accepted; else raise why it was not."""
        error: ShardFull | None = None
        with self._ends.lock:
            if not offer.is_accepted:
                self._admission.remove(offer)
                if offer.refused is not None:
                    raise offer.refused.with_traceback(None)  # it is that of all who wait
                error = self._admission.complaint(offer, waited_seconds)
                self._admission.admit()  # who stood behind it may go on
        if error is None:
            self._tell_accepted(offer)
            return
        for ticket in offer.tickets:
            refused = events.Refused(ticket.key, ticket.shard, error.length, error.capacity)
            self._ends.tell(refused)
        raise error

    def _take_back(self, offer: Offer) -> None:
        """Undo an offer whose caller was interrupted before it knew what became of it."""
        with self._ends.lock:
            self._admission.remove(offer)
            self._admission.admit()
        if offer.is_accepted:
            self._tell_accepted(offer)
            for ticket in offer.tickets:
                self._ends.cancel(ticket, "its submitter was cancelled while submitting it")

    def _tell_accepted(self, offer: Offer) -> None:
        if self._ends.listeners:
            for ticket in offer.tickets:
                self._ends.tell_each(events.Accepted(ticket.key, ticket.shard))

    def _check_open(self, offer: Offer) -> None:
        if not self.is_open:
            raise self.closed()
        if self._ends.halted:
            for ticket in offer.tickets:
                self._check_halted(ticket)

    def _check_halted(self, ticket: LocalTicket) -> None:
        halted = self._ends.halted
        if ticket.key in halted:
            raise KeyHalted(ticket.key, halted[ticket.key])
        if len(halted) >= bounds.HALTED_KEYS_MAX:
            raise TooManyHalted(len(halted))

"""How jobs get into an executor: at once, after a wait for room, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from inturn.executor.home import LoopSignal, ThreadSignal
from inturn.executor.lanes import REFUSED, STARTS
from inturn.executor.room import Offer
from inturn.executor.ticket import LocalTicket
from inturn.executor.turns import Turns
from inturn.model import bounds, events
from inturn.model.errors import ExecutorClosed, KeyHalted, TooManyHalted


class Door:
    """Lets jobs in while it is open. Whether it is, is looked at under the lock."""

    def __init__(self, turns: Turns, timeout: float, start: Callable[[], None]) -> None:
        self.is_open = False
        self.is_stopped = False
        self.lock = turns.lock
        self._turns = turns
        self._lanes = turns.lanes
        self._timeout = timeout
        self._start = start

    def enter(self, ticket: LocalTicket) -> bool:
        """Accept a job if there is room right now."""
        if not self.is_open:
            self._start_or_refuse()
        with self.lock:
            if not self.is_open:
                raise self.closed()
            if self._turns.halted:
                self._check_halted(ticket.key)
            accepted = self._lanes.accept(ticket)
        if accepted == REFUSED:
            return False
        if self._turns.listeners:
            self._turns.tell_each(events.Accepted(ticket.key, ticket.shard))
        if accepted == STARTS:
            assert ticket.lane is not None
            self._turns.start(ticket.lane)
        return True

    def enter_all(self, offer: Offer) -> bool:
        """Accept jobs if there is room for all of them right now."""
        if not self.is_open:
            self._start_or_refuse()
        with self.lock:
            self._check_open(offer)
            accepted = self._lanes.accept_all(offer)
            after = self._turns.leave()
        if accepted:
            self._tell_accepted(offer)
        self._turns.follow_up(*after)
        return accepted

    async def wait(self, offer: Offer, patience: float | None) -> None:
        """Wait until jobs are accepted, or raise why they were not."""
        if patience is None:
            patience = self._timeout
        if self._lanes.room.never_fits(offer):
            patience = 0.0
        if patience:
            signal = offer.signal = LoopSignal(self._turns.home)
            if not self._stand_in_line(offer):
                try:
                    await signal.wait(patience)
                except asyncio.CancelledError:
                    self._take_back(offer)
                    raise
        self._leave_line(offer, patience)

    def wait_sync(self, offer: Offer, patience: float | None) -> None:
        """Wait on a thread; on the loop's own, only look once more."""
        home = self._turns.home
        if patience is None:
            patience = self._timeout
        if home is not None and home.runs_here:
            patience = 0.0
        if patience:
            signal = offer.signal = ThreadSignal()
            if not self._stand_in_line(offer):
                try:
                    signal.wait(patience)
                except BaseException:  # Ctrl-C
                    self._take_back(offer)
                    raise
        self._leave_line(offer, patience)

    def close(self, when_drained: Callable[[], None]) -> None:
        """Refuse jobs from now on, and who still waits for room; say when the rest has ended."""
        turns = self._turns
        with self.lock:
            if not self.is_open:
                return
            self.is_open, self.is_stopped = False, True
            self._lanes.turn_away(self.closed())
            turns.when_drained = when_drained
            waiting, keys = self._lanes.room.total, len(self._lanes.lanes)
            after = turns.leave()
        turns.tell(events.Stopping(waiting, keys))
        turns.follow_up(*after)

    def _stand_in_line(self, offer: Offer) -> bool:
        """Wait for room, unless there is some by now; say whether there was."""
        with self.lock:
            self._check_open(offer)
            if not self._lanes.accept_all(offer):
                self._lanes.room.wait(offer)
            after = self._turns.leave()
        self._turns.follow_up(*after)
        return offer.accepted

    def _leave_line(self, offer: Offer, waited_seconds: float) -> None:
        """Return if an offer was accepted; else raise why it was not."""
        room = self._lanes.room
        with self.lock:
            if not offer.accepted:
                room.remove(offer)
                if offer.refused is not None:
                    raise offer.refused.with_traceback(None)  # it is that of all who wait
                error = room.complaint(offer, waited_seconds)
                self._lanes.admit()  # who stood behind it may go on
            after = self._turns.leave()
        self._turns.follow_up(*after)
        if offer.accepted:
            self._tell_accepted(offer)
            return
        for ticket in offer.tickets:
            refused = events.Refused(ticket.key, ticket.shard, error.length, error.capacity)
            self._turns.tell(refused)
        raise error

    def _take_back(self, offer: Offer) -> None:
        """Undo an offer whose caller was interrupted before it knew what became of it."""
        with self.lock:
            self._lanes.room.remove(offer)
            self._lanes.admit()
            after = self._turns.leave()
        self._turns.follow_up(*after)
        if offer.accepted:
            self._tell_accepted(offer)
            for ticket in offer.tickets:
                self._turns.cancel(ticket, "its submitter was cancelled while submitting it")

    def _tell_accepted(self, offer: Offer) -> None:
        if self._turns.listeners:
            for ticket in offer.tickets:
                self._turns.tell_each(events.Accepted(ticket.key, ticket.shard))

    def _check_open(self, offer: Offer) -> None:
        if not self.is_open:
            raise self.closed()
        if self._turns.halted:
            for ticket in offer.tickets:
                self._check_halted(ticket.key)

    def _check_halted(self, key: str) -> None:
        halted = self._turns.halted
        if key in halted:
            raise KeyHalted(key, halted[key])
        if len(halted) >= bounds.HALTED_KEYS_MAX:
            raise TooManyHalted(len(halted))

    def _start_or_refuse(self) -> None:
        """Start on the loop that runs here, if nobody has yet."""
        if self.is_stopped:
            raise self.closed()
        try:
            self._start()
        except RuntimeError as error:  # no loop runs here
            raise ExecutorClosed(
                "the executor has not been started, so there is no loop to run jobs on. Enter it "
                "with `async with`, or call start(), where the event loop runs."
            ) from error

    def closed(self) -> ExecutorClosed:
        """Return the error for who comes too late."""
        return ExecutorClosed(
            "the executor was stopped and takes no more jobs. Make a new one, or stop it later."
        )

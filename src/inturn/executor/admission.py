"""Whether a job is accepted: at once, after a wait for room, or not; and how many may wait."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

from inturn.executor.settings import ExecutorSettings
from inturn.executor.ticket import LocalTicket, LoopWakeup, State
from inturn.model import bounds, events
from inturn.model.errors import (
    EnqueueTimeout,
    ExecutorClosed,
    InturnError,
    KeyHalted,
    ShardFull,
    TooManyHalted,
)

if TYPE_CHECKING:
    from inturn.executor.job_ends import JobEnds
    from inturn.executor.lanes import Lanes


class Offer:
    """Jobs that are to be accepted together: all, or none."""

    __slots__ = ("is_accepted", "needs", "refused", "tickets", "wakeup")

    def __init__(self, tickets: list[LocalTicket]) -> None:
        self.tickets = tickets
        self.needs = Counter(ticket.shard for ticket in tickets)
        self.wakeup: LoopWakeup | Event | None = None
        self.is_accepted = False
        self.refused: InturnError | None = None  # why they need not wait any longer


class Admission:
    """The bounds on the jobs that wait, and for each shard a line of the offers that wait for room.

    A job that gets a free slot at once needs no room. Of a line only the first offer is accepted.
    The lock of the slots is held around all of it.
    """

    def __init__(self, lanes: Lanes, settings: ExecutorSettings) -> None:
        self.queue_size, self.depth_max = settings.queue_size, settings.depth_max
        self.depths = [0] * settings.shards
        self.total = 0
        self._asleep = [0] * settings.shards  # of the depths: what waits to run again
        self.lines: dict[int, deque[Offer]] = {}  # only of shards where an offer waits
        self._lanes = lanes

    # Coming in

    def take(self, ticket: LocalTicket, offer: Offer | None = None) -> bool:
        """Accept a job, if it has a slot or room and no other offer is to be accepted before."""
        lanes, shard = self._lanes, ticket.shard
        line = self.lines.get(shard) if self.lines else None
        if line and line[0] is offer:
            line = None
        lane = lanes.by_key.get(ticket.key)
        if lane is None and lanes.free > 0 and self._bears(shard, line):
            if line and any(one.key == ticket.key for other in line for one in other.tickets):
                return False
            ticket.state = State.STARTING
        elif line or self.depths[shard] >= self.queue_size or self.total >= self.depth_max:
            return False
        else:
            self.depths[shard] += 1
            self.total += 1
        if lane is None:
            lanes.open(ticket)
        else:
            lane.jobs.append(ticket)
        return True

    def take_all(self, offer: Offer) -> bool:
        """Accept the jobs of an offer, if there is room for all and no other offer is before it."""
        if any(self.lines[shard][0] is not offer for shard in offer.needs if shard in self.lines):
            return False
        if len(offer.tickets) > 1 and not self._fits(offer):
            return False
        if not all(self.take(ticket, offer) for ticket in offer.tickets):
            return False
        self.remove(offer)
        offer.is_accepted = True
        if offer.wakeup is not None:
            offer.wakeup.set()
        return True

    def never_fits(self, offer: Offer) -> bool:
        """Whether an offer is too large for an executor that is empty."""
        return len(offer.tickets) > self.depth_max or any(
            count > self.queue_size for count in offer.needs.values()
        )

    def _fits(self, offer: Offer) -> bool:
        return self.total + len(offer.tickets) <= self.depth_max and all(
            self.depths[shard] + count <= self.queue_size for shard, count in offer.needs.items()
        )

    def _bears(self, shard: int, line: deque[Offer] | None) -> bool:
        """Whether a job may run without room, though it may fail and wait to run again.

        The jobs that wait so already must leave room for the first offer in line. Otherwise jobs
        that come and fail would keep it out for ever, and their number would have no bound.
        """
        if not self._lanes.asleep:
            return True
        needed, in_all = (line[0].needs[shard], len(line[0].tickets)) if line else (1, 1)
        return (
            self._asleep[shard] + needed <= self.queue_size
            and self._lanes.asleep + in_all <= self.depth_max
        )

    # The line

    def wait(self, offer: Offer) -> None:
        """Put an offer at the end of the line of each of its shards."""
        for shard in offer.needs:
            self.lines.setdefault(shard, deque()).append(offer)

    def remove(self, offer: Offer) -> None:
        """Take an offer out of every line it is in."""
        for shard in offer.needs:
            line = self.lines.get(shard)
            if line is not None and offer in line:
                line.remove(offer)
                if not line:
                    del self.lines[shard]

    def admit(self) -> None:
        """Accept the offers for which there is room by now: in each shard first come, first in."""
        again = True
        while again:
            again = False
            for shard in list(self.lines):
                while (line := self.lines.get(shard)) and self.take_all(line[0]):
                    again = True

    def turn_away(self, error: InturnError, key: str | None = None) -> None:
        """Refuse the offers that wait for room, or only those with a job of one key."""
        waiting = {id(offer): offer for line in self.lines.values() for offer in line}
        for offer in waiting.values():
            if key is None or any(ticket.key == key for ticket in offer.tickets):
                self.remove(offer)
                offer.refused = error
                if offer.wakeup is not None:
                    offer.wakeup.set()
        if key is not None and self.lines:
            self.admit()

    # Counting what waits

    def leave(self, shard: int) -> None:
        """Count a job that waits no longer, and accept what waited for its place."""
        self.uncount(shard)
        if self.lines:
            self.admit()

    def uncount(self, shard: int) -> None:
        """Count a job that waits no longer."""
        self.depths[shard] -= 1
        self.total -= 1

    def fall_asleep(self, shard: int) -> None:
        """Count a job that waits to run again."""
        self.depths[shard] += 1
        self.total += 1
        self._asleep[shard] += 1
        if self.lines:
            self.admit()  # a slot is free

    def wake(self, shard: int) -> None:
        """Count a job no longer as one that waits to run again; it waits for a slot still."""
        self._asleep[shard] -= 1

    def no_room(self, offer: Offer, waited_seconds: float) -> ShardFull:
        """Return the error of an offer for which a shard, or all of them, had no room, or which
        came behind others.
        """
        tickets, needs, is_total = offer.tickets, offer.needs, False
        over = [
            one for one in tickets if self.depths[one.shard] + needs[one.shard] > self.queue_size
        ]
        if not over and self.total + len(tickets) > self.depth_max:
            over, is_total = tickets, True
        behind = [one for one in tickets if one.shard in self.lines]
        ticket = [*over, *behind, *tickets][0]
        if is_total:
            length, capacity, added = self.total, self.depth_max, len(tickets)
        else:
            length, capacity = self.depths[ticket.shard], self.queue_size
            added = needs[ticket.shard]
        told = (ticket.key, ticket.shard, length, capacity, added)
        if waited_seconds > 0:
            return EnqueueTimeout(*told, waited_seconds, is_total=is_total)
        return ShardFull(*told, is_total=is_total)


class Entry:
    """Accepts jobs as long as it is open, which is looked up under the lock."""

    def __init__(self, ends: JobEnds) -> None:
        self.is_open = False
        self._ends, self._admission = ends, ends.admission

    def enter(self, ticket: LocalTicket) -> bool:
        """Accept a job if there is room right now."""
        ends = self._ends
        ends.lock.acquire()  # as slots do
        try:
            if not self.is_open:
                raise self.closed()
            if ends.halted:
                self._check_halted(ticket)
            is_accepted = self._admission.take(ticket)
        finally:
            ends.lock.release()
        if is_accepted and ends.listeners:
            ends.tell_each(events.Accepted(ticket.key, ticket.shard))
        return is_accepted

    async def wait(self, offer: Offer, seconds: float) -> None:
        """Wait until jobs are accepted, or raise why they were not."""
        wakeup = offer.wakeup = LoopWakeup()
        if self._admission.never_fits(offer):
            seconds = 0.0
        with self._in_line(offer, seconds):
            if seconds and not offer.is_accepted:
                await wakeup.wait(seconds)

    def wait_sync(self, offer: Offer, seconds: float) -> None:
        """Wait on a thread; on that of the loop, which must not block, only look once more."""
        wakeup = offer.wakeup = Event()
        if self._ends.is_here:
            seconds = 0.0
        with self._in_line(offer, seconds):
            wakeup.wait(seconds)

    def close(self) -> None:
        """Refuse jobs from now on, and those that still wait for room."""
        ends = self._ends
        with ends.lock:
            if not self.is_open:
                return
            self.is_open = False
            self._admission.turn_away(self.closed())
            waiting, keys = self._admission.total, len(ends.lanes.by_key)
        ends.tell(events.Stopping(waiting, keys))

    def closed(self) -> ExecutorClosed:
        """Return the error of a job that comes too late."""
        return ExecutorClosed(
            "the executor was stopped and takes no more jobs. Make a new one, or stop it later."
        )

    @contextmanager
    def _in_line(self, offer: Offer, seconds: float) -> Iterator[None]:
        """Have an offer in line while its caller waits, unless there is room by now."""
        ends, admission = self._ends, self._admission
        with ends.lock:
            if not self.is_open:
                raise self.closed()
            if ends.halted:
                for ticket in offer.tickets:
                    self._check_halted(ticket)
            if not admission.take_all(offer):
                admission.wait(offer)
        is_interrupted = True
        try:
            yield
            is_interrupted = False
        finally:
            with ends.lock:
                if not offer.is_accepted:
                    admission.remove(offer)
                    error = offer.refused or admission.no_room(offer, seconds)
                    admission.admit()  # those behind it may go on
            for ticket in offer.tickets if offer.is_accepted and ends.listeners else ():
                ends.tell_each(events.Accepted(ticket.key, ticket.shard))
            for ticket in offer.tickets if offer.is_accepted and is_interrupted else ():
                ends.cancel(ticket, "its submitter was cancelled while submitting it")
        if not offer.is_accepted:
            if isinstance(error, ShardFull):
                for ticket in offer.tickets:
                    told = events.Refused(ticket.key, ticket.shard, error.length, error.capacity)
                    ends.tell(told)
            raise error.with_traceback(None)  # others may have been refused with it

    def _check_halted(self, ticket: LocalTicket) -> None:
        halted = self._ends.halted
        if ticket.key in halted:
            raise KeyHalted(ticket.key, halted[ticket.key])
        if len(halted) >= bounds.HALTED_KEYS_MAX:
            raise TooManyHalted(len(halted))

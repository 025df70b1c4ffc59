"""Which keys run, which wait for a slot, and how much room is left. Pure: no clock, no thread.

Whoever calls holds the executor's lock. What has to happen outside the lock is left in ``started``
(lanes that got a slot) and ``fired`` (waits that are over).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from inturn.executor.call import NOWHERE
from inturn.executor.lane import Lane, LaneState, are_the_most
from inturn.executor.room import Offer, Room
from inturn.executor.settings import ExecutorSettings
from inturn.executor.ticket import LocalTicket, State
from inturn.model import bounds
from inturn.model.errors import EarlierFailure, InturnError

_WAITING, _RUNNING, _RETRYING = State.WAITING, State.RUNNING, State.RETRYING
_HELD, _READY, _SLEEPING = LaneState.HELD, LaneState.READY, LaneState.SLEEPING

REFUSED, WAITS, STARTS = 0, 1, 2


class Lanes:
    """The lanes of an executor. A slot is held by a key that runs; ready keys take turns."""

    __slots__ = (
        "ending",
        "failed",
        "fired",
        "lanes",
        "ready",
        "room",
        "running",
        "slots",
        "started",
        "void",
    )

    def __init__(self, settings: ExecutorSettings) -> None:
        self.slots = settings.slots
        self.room = Room(settings.shards, settings.queue_size, settings.depth_max)
        self.running = 0
        self.ending = 0  # jobs out of their lane whose end is not reported yet
        self.lanes: dict[str, Lane] = {}
        self.ready: deque[Lane] = deque()
        self.void = 0  # lanes that were emptied while they were ready, and still stand there
        self.failed: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self.started: list[Lane] = []
        self.fired: list[Callable[[], None]] = []

    @property
    def drained(self) -> bool:
        """Whether everything that was accepted has ended and was reported."""
        return not self.lanes and not self.ending

    # Coming in

    def accept(self, ticket: LocalTicket) -> int:
        """Give a job its place in line, if there is room and nobody waits for it already.

        ``STARTS``: its key got a slot at once, which needs no room, and so passes who waits for it,
        unless that is with a job of the same key.
        """
        room = self.room
        lane = self.lanes.get(ticket.key)
        if (
            lane is None
            and self.running < self.slots
            and ticket.key not in room.by_key
            and (not room.asleep_total or room.bears(ticket.shard))
        ):
            self._start_new(ticket)
            return STARTS
        if room.offers and ticket.shard in room.offers:
            return REFUSED
        if lane is None:
            if room.depths[ticket.shard] >= room.queue_size or room.total >= room.depth_max:
                return REFUSED
            lane = Lane(ticket.key, ticket.shard, _READY, deque())
            self.lanes[ticket.key] = lane
            self.ready.append(lane)
        elif room.depths[ticket.shard] >= room.queue_size or room.total >= room.depth_max:
            return REFUSED
        ticket.lane, ticket.state = lane, _WAITING
        lane.jobs.append(ticket)
        room.depths[ticket.shard] += 1
        room.total += 1
        return WAITS

    def accept_all(self, offer: Offer) -> bool:
        """Give the jobs of an offer their places: all of them, or none."""
        fits = self.room.is_first(offer) and self.room.fits(offer)
        if fits or self._starts(offer):
            self._enter(offer)
            return True
        return False

    def put_barrier(self, barrier: LocalTicket) -> bool:
        """Put a barrier behind what its key has in line; False if that is nothing."""
        lane = self.lanes.get(barrier.key)
        if lane is None:
            return False
        barrier.lane, barrier.state = lane, _WAITING
        lane.jobs.append(barrier)
        return True

    def admit(self) -> None:
        """Let in those who wait for room: in each shard first come, first in.

        Past them, who has waited for no more than a slot and can have one: else who comes now
        would have it, and they never.
        """
        self._admit_first()
        while self.running < self.slots and (offer := self._startable()) is not None:
            self._enter(offer)
            for key in offer.keys:
                self.room.turnstile.put_last(key)
            self._admit_first()

    def _admit_first(self) -> None:
        room, offers = self.room, self.room.offers
        again = True
        while again:
            again = False
            for shard in list(offers):
                if room.total >= room.depth_max and self.running >= self.slots:
                    return  # nobody can get in, whichever shard they wait in
                while (line := offers.get(shard)) and self.accept_all(line[0]):
                    again = True

    def _startable(self) -> Offer | None:
        """Return an offer in line whose jobs all get a slot at once, if there is one."""
        room = self.room
        return room.turnstile.first(self.slots - self.running, room.bears, self.lanes)

    def turn_away(self, error: InturnError, key: str | None = None) -> None:
        """Refuse those who wait for room, or only those with a job of one key."""
        room = self.room
        for offer in room.waiting() if key is None else list(room.by_key.get(key, ())):
            room.remove(offer)
            offer.refused = error
            if offer.signal is not None:
                self.fired.append(offer.signal.fire)
        if key is not None:
            self.admit()

    def _starts(self, offer: Offer) -> bool:
        """Whether each job of an offer gets a slot at once, for which no room is needed."""
        room, count = self.room, len(offer.tickets)
        if count > self.slots - self.running or room.never_fits(offer):
            return False
        keys = offer.keys
        return (
            len(keys) == count
            and all(key not in self.lanes and room.is_first_of(key, offer) for key in keys)
            and all(room.bears(shard) for shard in offer.needs)
        )

    def _enter(self, offer: Offer) -> None:
        self.room.remove(offer)
        offer.accepted = True
        if offer.signal is not None:
            self.fired.append(offer.signal.fire)
        for ticket in offer.tickets:
            lane = self.lanes.get(ticket.key)
            if lane is None and self.running < self.slots:
                self.started.append(self._start_new(ticket))
                continue
            if lane is None:
                lane = Lane(ticket.key, ticket.shard, _READY, deque())
                self.lanes[ticket.key] = lane
                self.ready.append(lane)
            ticket.lane, ticket.state = lane, _WAITING
            lane.jobs.append(ticket)
            self.room.add(ticket.shard)

    def _start_new(self, ticket: LocalTicket) -> Lane:
        lane = Lane(ticket.key, ticket.shard, _HELD, deque(), ticket)
        self.lanes[ticket.key] = lane
        self.running += 1
        ticket.lane, ticket.state = lane, _RUNNING
        return lane

    # Taking turns

    def ended(self, lane: Lane) -> Lane | None:
        """Go on after a lane's head has ended: return the lane that gets its slot, or None.

        A key with more to do gets in line again behind the keys that are ready.
        """
        lane.head = None
        jobs = lane.jobs
        if jobs and (jobs[0].state is not _WAITING or jobs[0].place == NOWHERE):
            self._pass_over(lane)
        if jobs:
            if not self.ready:
                self._take(lane)
                return lane
            lane.state = _READY
            self.ready.append(lane)
        else:
            del self.lanes[lane.key]
            if self.room.by_key:
                self.room.turnstile.release(lane.key)
        return self._next()

    def sleep(self, lane: Lane) -> Lane | None:
        """Set a lane's failed head to wait; return the lane that gets its slot, or None."""
        assert lane.head is not None
        lane.state, lane.head.state = _SLEEPING, _RETRYING
        self.room.fall_asleep(lane.shard)
        return self._next()

    def wake(self, lane: Lane) -> None:
        """Let a lane that slept, or lost its sleeping head, run again when it gets a slot."""
        lane.timer = None
        if self.running < self.slots:
            self.running += 1
            self._take(lane)
            self.started.append(lane)
        else:
            lane.state = _READY
            self.ready.append(lane)

    def _next(self) -> Lane | None:
        """Give a slot that is free now to the first ready lane, or to nobody."""
        ready = self.ready
        while ready:
            lane = ready.popleft()
            if lane.head is None:
                jobs = lane.jobs
                if not jobs or jobs[0].state is not _WAITING or jobs[0].place == NOWHERE:
                    self._pass_over(lane)
                if not jobs:
                    self.void -= 1
                    continue
            self._take(lane)
            return lane
        self.running -= 1
        if self.room.offers:
            self.admit()
        return None

    def _take(self, lane: Lane) -> None:
        """Make the next job of a lane its running head."""
        ticket, room = lane.head, self.room
        slept = room.asleep_total
        if ticket is None:
            ticket = lane.head = lane.jobs.popleft()
        else:
            room.wake(lane.shard)
        ticket.state = _RUNNING
        lane.state = _HELD
        room.depths[lane.shard] -= 1
        room.total -= 1
        if room.offers:
            if slept:
                self.admit()
            else:  # no slot has come free, nor has anything slept that kept one from being taken
                self._admit_first()

    def _pass_over(self, lane: Lane) -> None:
        """Go past cancelled jobs and reached barriers at the front of a line."""
        jobs = lane.jobs
        while jobs:
            first = jobs[0]
            if first.state is not _WAITING:
                lane.void -= 1
            elif first.place == NOWHERE:
                self._reach(first)
            else:
                return
            jobs.popleft()

    def _reach(self, barrier: LocalTicket) -> None:
        note = self.failed.pop(barrier.key, None)
        if note is not None:
            barrier.error = EarlierFailure(barrier.key, *note)
        self.end_barrier(barrier)

    def end_barrier(self, barrier: LocalTicket) -> None:
        """Let those go on who wait at a barrier."""
        barrier.state, barrier.lane = State.ENDED, None
        self.fired += barrier.signals or ()

    def _drop(self, lane: Lane) -> None:
        """Take away a lane without a slot that has nothing to run any more.

        One that was ready is passed over when its turn comes, or left out when the most are such:
        so keys whose jobs are submitted and cancelled while all slots are busy are not kept.
        """
        del self.lanes[lane.key]
        self.room.turnstile.release(lane.key)
        if lane.state is _READY:
            self.void += 1
            if are_the_most(self.void, self.ready):
                self.ready = deque(one for one in self.ready if one.jobs or one.head is not None)
                self.void = 0

    # Going out of line

    def withdraw(self, ticket: LocalTicket) -> None:
        """Take a job that waits, or waits to run again, out of line; its end is to be reported."""
        lane = ticket.lane
        assert lane is not None
        if ticket.state is _RETRYING:
            lane.head = None
        else:
            lane.void += 1
            lane.leave_out_void()
        self._take_out([ticket])
        if lane.head is None:
            self._pass_over(lane)
            if not lane.jobs:
                self._drop(lane)
            elif lane.state is _SLEEPING:
                self.wake(lane)
        if self.room.offers:
            self.admit()

    def void_barrier(self, barrier: LocalTicket) -> None:
        """Forget a barrier that nobody waits at any more."""
        if barrier.state is _WAITING and barrier.lane is not None:
            barrier.state = State.ENDED
            barrier.lane.void += 1
            barrier.lane.leave_out_void()
        elif isinstance(barrier.error, EarlierFailure):  # reached, but nobody heard it
            self.note(barrier.key, barrier.error.error, barrier.error.failures)

    def halt(self, lane: Lane) -> tuple[list[LocalTicket], Lane | None]:
        """End a lane on its failed head: return what was behind it, and who gets the slot."""
        left = self._empty(lane)
        lane.head = None
        del self.lanes[lane.key]
        self.room.turnstile.release(lane.key)
        return left, self._next()

    def abort(self) -> list[LocalTicket]:
        """Take everything out of line that does not run."""
        left: list[LocalTicket] = []
        for lane in list(self.lanes.values()):
            if lane.head is not None and lane.head.state is _RETRYING:
                self._take_out([lane.head])
                left.append(lane.head)
                lane.head = None
            left += self._empty(lane)
            if lane.head is None:
                del self.lanes[lane.key]
                self.room.turnstile.release(lane.key)
        self.ready.clear()
        self.void = 0
        return left

    def _empty(self, lane: Lane) -> list[LocalTicket]:
        """Take what is behind a lane's head out of line; barriers learn what had failed."""
        waiting = [one for one in lane.jobs if one.state is _WAITING]
        lane.jobs.clear()
        lane.void = 0
        left = [one for one in waiting if one.place != NOWHERE]
        self._take_out(left)
        for barrier in waiting:
            if barrier.place == NOWHERE:
                count, error = self.failed.get(lane.key, (max(1, len(left)), "not run"))
                barrier.error = EarlierFailure(lane.key, count, error)
                self.end_barrier(barrier)
        return left

    def _take_out(self, tickets: Sequence[LocalTicket]) -> None:
        for ticket in tickets:
            if ticket.state is _RETRYING:
                self.room.wake(ticket.shard)
            ticket.state = State.ENDING
            self.room.depths[ticket.shard] -= 1
        self.room.total -= len(tickets)
        self.ending += len(tickets)

    # Failures, for barriers

    def note(self, key: str, error: str, count: int = 1) -> None:
        """Keep a key's failure until a barrier tells it. Of very many keys, the last are kept."""
        before, first = self.failed.pop(key, (0, error))
        self.failed[key] = (before + count, first)
        if len(self.failed) > bounds.FAILED_KEYS_MAX:
            self.failed.popitem(last=False)

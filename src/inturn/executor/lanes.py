"""The jobs of each key, in line, and what runs next.

The lock of the slots is held around all of it but what calls a job's function and takes in its end.
"""

from __future__ import annotations

from asyncio import CancelledError, TimerHandle
from collections import OrderedDict, deque
from collections.abc import Callable
from contextvars import Context
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING, Any, ClassVar

from inturn.executor.job_call import NOWHERE
from inturn.executor.slots import ON_LOOP, ON_THREAD, Slots
from inturn.executor.ticket import LocalTicket, State
from inturn.model import bounds, events
from inturn.model.errors import EarlierFailure

if TYPE_CHECKING:
    from inturn.executor.admission import Admission

_WAITING, _STARTING = State.WAITING, State.STARTING
_RUNNING, _ENDED = State.RUNNING, State.ENDED


class Skipped(Exception):
    """A job was cancelled after it got a slot and before it ran."""


class Lane:
    """The jobs of one key: its head, which was started, and those behind it, which were not.

    It is there only while it has a job. Then it stands in line for a slot, has one, or is asleep
    until its head may run again.
    """

    __slots__ = ("_lanes", "began_at", "head", "is_asleep", "jobs", "key", "running_in", "timer")
    keeps_slot: ClassVar[bool] = False

    def __init__(self, lanes: Lanes, key: str) -> None:
        self.key, self._lanes = key, lanes
        self.head: LocalTicket | None = None
        self.jobs: deque[LocalTicket] = deque()
        self.is_asleep = False
        self.timer: TimerHandle | None = None
        self.running_in: Context | None = None
        self.began_at = 0.0

    # What slots ask of it

    def next(self, place: int) -> LocalTicket | None:
        """Make the first job the head that runs."""
        ticket = self.head or self.jobs[0]
        if ticket.place != place:  # what stood before it was cancelled
            self._lanes.slots.put(self, ticket.place)
            return None
        if self.head is None:
            self.head = self.jobs.popleft()
        if ticket.state is not _STARTING:
            admission = self._lanes.admission
            admission.depths[ticket.shard] -= 1
            admission.total -= 1
            if admission.lines:
                admission.admit()
        ticket.state = _RUNNING
        return ticket

    def context(self, ticket: LocalTicket) -> Context:
        """Return a new copy of the submitter's context, one for each attempt."""
        if ticket.begun is None or self.running_in is None:
            given = ticket.context
            self.running_in = Context() if given is None else given.copy()
        return self.running_in

    def begin(self, ticket: LocalTicket) -> Any:
        """Call the job's function; or return the coroutine that one on a thread has returned."""
        if ticket.cancel_why is not None:
            raise Skipped
        if ticket.begun is not None:
            coroutine, ticket.begun, ticket.place = ticket.begun, None, ON_THREAD
            return coroutine
        ticket.attempts += 1
        if ticket.ends.listeners:
            self.began_at = perf_counter()
        assert ticket.call is not None
        return ticket.call()

    def ended(self, ticket: LocalTicket, value: Any, error: BaseException | None) -> int | None:
        """End a job well, have what a ``def`` returned awaited, or see what an error means."""
        again: int | None
        ends = ticket.ends
        if type(value) is CoroutineType and ticket.place == ON_THREAD:  # a lambda, say
            with ends.lock:
                if not ends.loop_ends:
                    ticket.begun, ticket.state, ticket.place = value, _STARTING, ON_LOOP
                    return ON_LOOP
            value.close()
            error = CancelledError()
        if ends.listeners and not isinstance(error, Skipped):
            seconds = perf_counter() - self.began_at
            ends.tell_each(events.Ran(ticket.key, ticket.shard, ticket.attempts, seconds, error))
        if error is not None:
            return ends.failed(self, ticket, error)
        ends.lock.acquire()  # as slots do
        try:
            if value is not None:  # to write to a ticket takes ten times as long as to read it
                ticket.value = value
            if ticket.context is not None:
                ticket.context = None
            ticket.call = None
            ticket.state = _ENDED
            self.head, jobs = None, self.jobs
            again = jobs[0].place if jobs else NOWHERE
            if again == NOWHERE:
                again = self._lanes.go_on(self)
            signals = ticket.signals
        finally:
            ends.lock.release()
        if signals is not None:
            ticket.signals = None  # they hold those who waited, and their loop
            for signal in signals:
                signal()
        return again


class Lanes:
    """The lanes of an executor, by their keys."""

    def __init__(self, slots: int) -> None:
        self.count = slots
        self.slots: Slots  # from the executor's start on
        self.admission: Admission
        self.by_key: dict[str, Lane] = {}
        self.asleep = 0
        self.ending = 0  # jobs out of line whose end is not reported yet
        self.failed: OrderedDict[str, tuple[int, str]] = OrderedDict()  # not told by a barrier yet
        self.when_drained: Callable[[], None] | None = None

    @property
    def free(self) -> int:
        """How many slots no lane has or is to get."""
        return self.count - len(self.by_key) + self.asleep

    def open(self, ticket: LocalTicket) -> None:
        """Make the lane of a key that has none, with its first job."""
        lane = self.by_key[ticket.key] = Lane(self, ticket.key)
        lane.jobs.append(ticket)
        self.slots.put(lane, ticket.place)

    def put_barrier(self, barrier: LocalTicket) -> bool:
        """Put a barrier behind what its key has in line; False if that is nothing."""
        lane = self.by_key.get(barrier.key)
        if lane is not None:
            lane.jobs.append(barrier)
        return lane is not None

    def go_on(self, lane: Lane) -> int | None:
        """Go on after a lane's head has ended: return where its next job runs, if it has one."""
        lane.head, jobs = None, lane.jobs
        while jobs:
            if jobs[0].place != NOWHERE:
                return jobs[0].place
            self._reach(jobs.popleft())
        del self.by_key[lane.key]
        if self.admission.lines:
            self.admission.admit()
        self.look_for_end()
        return None

    def sleep(self, lane: Lane) -> None:
        """Set a lane's failed head to wait."""
        assert lane.head is not None
        lane.head.state, lane.is_asleep = State.RETRYING, True
        self.asleep += 1
        self.admission.fall_asleep(lane.head.shard)

    def wake(self, lane: Lane) -> None:
        """Let a lane's head run again when it gets a slot."""
        assert lane.head is not None
        self._rise(lane, lane.head.shard)
        self.slots.put(lane, lane.head.place)

    def take_out(self, ticket: LocalTicket) -> None:
        """Take a job that waits, or waits to run again, out of line; its end is to be reported."""
        lane = self.by_key[ticket.key]
        takes_room, ticket.state = ticket.state is not _STARTING, State.ENDING
        self.ending += 1
        if ticket is not lane.head:
            lane.jobs.remove(ticket)
        was_asleep = lane.is_asleep and ticket is lane.head
        if was_asleep:
            self._rise(lane, ticket.shard)
        if takes_room:
            self.admission.leave(ticket.shard)
        if lane.head not in (None, ticket):
            return
        if (place := self.go_on(lane)) is None:
            if not was_asleep:
                self.slots.remove(lane)
        elif was_asleep:
            self.slots.put(lane, place)

    def empty(self, lane: Lane) -> list[LocalTicket]:
        """Take what is behind a lane's head out of line; barriers learn what had failed."""
        left = [one for one in lane.jobs if one.place != NOWHERE]
        barriers = [one for one in lane.jobs if one.place == NOWHERE]
        lane.jobs.clear()
        for ticket in left:
            if ticket.state is not _STARTING:
                self.admission.uncount(ticket.shard)
            ticket.state = State.ENDING
        self.ending += len(left)
        for barrier in barriers:
            count, error = self.failed.get(lane.key, (max(1, len(left)), "not run"))
            self._end(barrier, EarlierFailure(lane.key, count, error))
        return left

    def abort(self) -> tuple[list[LocalTicket], list[Lane]]:
        """Take everything out of line that does not run; return it, and the lanes that run."""
        left: list[LocalTicket] = []
        for lane in list(self.by_key.values()):
            behind = self.empty(lane)
            if lane.head is not None and lane.head.state in (_STARTING, State.RETRYING):
                left.append(lane.head)
                self.take_out(lane.head)
            elif lane.head is None:
                self.go_on(lane)
                self.slots.remove(lane)
            left += behind
        return left, list(self.by_key.values())

    def look_for_end(self) -> None:
        """Say that all has ended, if someone wants to know and it has."""
        if self.when_drained is not None and not (self.by_key or self.ending):
            self.when_drained()

    # Failures and barriers

    def note(self, key: str, error: str, count: int = 1) -> None:
        """Keep a key's failure until a barrier tells it. Of very many keys, the last are kept."""
        before, first = self.failed.pop(key, (0, error))
        self.failed[key] = (before + count, first)
        if len(self.failed) > bounds.FAILED_KEYS_MAX:
            self.failed.popitem(last=False)

    def forget_barrier(self, barrier: LocalTicket) -> None:
        """Forget a barrier that nobody waits at any more."""
        if barrier.state is _WAITING:
            self.by_key[barrier.key].jobs.remove(barrier)
            barrier.state = State.ENDED
        elif isinstance(barrier.error, EarlierFailure):  # reached, but nobody heard it
            self.note(barrier.key, barrier.error.error, barrier.error.failures)

    def _reach(self, barrier: LocalTicket) -> None:
        note = self.failed.pop(barrier.key, None)
        self._end(barrier, None if note is None else EarlierFailure(barrier.key, *note))

    def _end(self, barrier: LocalTicket, error: EarlierFailure | None) -> None:
        barrier.error, barrier.state = error, _ENDED
        for signal in barrier.signals or ():
            signal()

    def _rise(self, lane: Lane, shard: int) -> None:
        lane.is_asleep = False
        self.asleep -= 1
        self.admission.wake(shard)

"""The threads that run ``def`` jobs. They take lanes from one another's hands, past the loop."""

from __future__ import annotations

import threading
from contextvars import Context
from queue import SimpleQueue
from time import perf_counter
from types import CoroutineType
from typing import TYPE_CHECKING

from inturn.executor.call import ON_THREAD
from inturn.executor.lane import Lane
from inturn.executor.ticket import LocalTicket
from inturn.model import events

if TYPE_CHECKING:
    from inturn.executor.turns import Turns

_JOIN_SECONDS_MAX = 5.0


class ThreadSlots:
    """Threads, made as they are needed and at most as many as there are slots."""

    def __init__(self, turns: Turns, slots: int) -> None:
        self.turns = turns
        self._slots = slots
        self._lanes: SimpleQueue[Lane | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._given = 0  # lanes that no thread has taken yet
        self._idle = 0
        self._threads: list[SlotThread] = []
        self._ended = False

    def give(self, lane: Lane) -> None:
        """Have a thread run the head of a lane that has a slot."""
        following: Lane | None = lane
        while following is not None and (error := self._put(following)) is not None:
            head = following.head
            assert head is not None
            following = self.turns.failed(following, head, error, ON_THREAD)

    def _put(self, lane: Lane) -> RuntimeError | None:
        """Put a lane where a thread takes it; return why there is no thread, if there is none."""
        with self._lock:
            if self._ended:
                return RuntimeError("the threads for jobs have ended with their event loop")
            if self._given >= self._idle and len(self._threads) < self._slots:
                thread = SlotThread(self, len(self._threads))
                try:
                    thread.start()
                except RuntimeError as error:  # the system gives us no more threads
                    if not self._threads:
                        return error
                else:
                    self._threads.append(thread)
            self._given += 1
            self._lanes.put(lane)
            return None

    def take(self) -> Lane | None:
        """Wait for a lane; None ends the thread."""
        with self._lock:
            self._idle += 1
        lane = self._lanes.get()
        with self._lock:
            self._idle -= 1
            self._given -= 1
        return lane

    def end(self) -> None:
        """Let every thread end after what it was given. From now on it is given nothing."""
        with self._lock:
            self._ended = True
            for _ in self._threads:
                self._lanes.put(None)

    def join(self) -> None:
        """Wait for threads that were told to end and have nothing left to run."""
        for thread in self._threads:
            thread.join(_JOIN_SECONDS_MAX)


class SlotThread(threading.Thread):
    """A thread that runs one lane after the other. ``ticket`` is the job it runs now.

    It does not keep the process from ending: who wants jobs to end first stops the executor.
    """

    def __init__(self, slots: ThreadSlots, number: int) -> None:
        super().__init__(name=f"inturn-slot-{number}", daemon=True)
        self.slots = slots
        self.ticket: LocalTicket | None = None

    def run(self) -> None:
        """Run lanes until told to end."""
        while (lane := self.slots.take()) is not None:
            while lane is not None:
                lane = self._turn(lane)
                self.ticket = None

    def _turn(self, lane: Lane) -> Lane | None:
        """Make one attempt at the head of a lane; return the lane to run next."""
        turns = self.slots.turns
        ticket = self.ticket = lane.head
        assert ticket is not None
        if ticket.cancel_why is not None:
            return turns.skipped(lane, ticket, ON_THREAD)
        ticket.attempts += 1
        listening = turns.listeners
        began = perf_counter() if listening else 0.0
        failed: BaseException | None = None
        try:
            given = ticket.context
            context = Context() if given is None else given.copy()
            value = context.run(ticket.call)  # type: ignore[arg-type]
        except BaseException as error:  # whatever it is, it ends the attempt and not the thread
            failed = error
        if failed is None and type(value) is CoroutineType:  # a lambda, say, around an async def
            ticket.begun = value, context
            turns.on_loop.give(lane)
            return None
        if listening:
            seconds = perf_counter() - began
            turns.tell_each(events.Ran(ticket.key, ticket.shard, ticket.attempts, seconds, failed))
        if failed is None:
            return turns.done(lane, ticket, value, ON_THREAD)
        try:
            return turns.failed(lane, ticket, failed, ON_THREAD)
        finally:
            failed = None  # else this frame and the error's traceback would hold each other

"""The slots on the loop, where ``async def`` jobs run: a few long-lived coroutines, not one a job.

A job's coroutine is stepped by its slot, each step in the attempt's own context. A job that never
has to wait costs no more than its call, and what one leaves in context variables no other sees.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from contextvars import Context
from threading import get_ident
from time import monotonic, perf_counter
from types import CoroutineType, coroutine
from typing import TYPE_CHECKING, Any

from inturn.executor.call import ON_LOOP
from inturn.executor.home import Home
from inturn.executor.lane import Lane
from inturn.executor.ticket import LocalTicket
from inturn.model import events
from inturn.policy.raised import is_a

if TYPE_CHECKING:
    from inturn.executor.turns import Turns

HOG_SECONDS_MAX = 0.002  # how long a slot goes on without letting the rest of the loop have a turn


class Slot:
    """One coroutine that runs lanes, and the job it runs now."""

    __slots__ = ("is_awake", "parked", "ticket", "worker")

    def __init__(self) -> None:
        self.ticket: LocalTicket | None = None
        self.worker: SlotWorker
        self.is_awake = False  # whether it will look at what was given, without being woken
        self.parked: asyncio.Future[None] | None = None


class SlotWorker(asyncio.Task[None]):
    """The task of a slot, by which its job is known wherever it is the current one."""

    slot: Slot


class LoopSlots:
    """Slots on the loop, made as they are needed; those without work wait to be woken.

    Jobs that never wait need one slot, however many were given: it runs them one after the other.
    So one is woken, and the rest when a job has to wait.
    """

    def __init__(self, turns: Turns, home: Home) -> None:
        self.turns = turns
        self.slots: dict[asyncio.Task[None], Slot] = {}
        self._awaiting: dict[LocalTicket, Slot] = {}  # by the jobs that have had to wait
        self._stepping: Slot | None = None  # the last that began a job: no other is at a first step
        self._home = home
        self._loop = home.loop
        self._given: deque[Lane] = deque()
        self._handed: deque[Lane] = deque()  # the same, by other threads, before the loop knows
        self._parked: list[Slot] = []
        self._awake = 0
        self._ended = False

    def give(self, lane: Lane) -> None:
        """Have a slot run the head of a lane, or skip it if the loop ends. From any thread.

        Another thread hands the lane over before it looks whether the loop ends, and who ends the
        loop says so before it looks what was handed over: one of them finds the lane.
        """
        if get_ident() == self._home.thread:
            self._give_here(lane)
            return
        self._handed.append(lane)
        if self.turns.loop_ends():
            self._receive()
        else:
            self._home.call(self._receive)

    def interrupt(self, ticket: LocalTicket) -> None:
        """Throw CancelledError into a job, if it runs. On the loop's thread only."""
        slot = self._awaiting.get(ticket, self._stepping)
        if slot is not None and slot.ticket is ticket:
            slot.worker.cancel()

    async def end(self) -> None:
        """End every slot; nothing is left to run."""
        self._ended = True
        for slot in self._parked:
            if slot.parked is not None and not slot.parked.done():
                slot.parked.set_result(None)
        while self.slots:
            await asyncio.wait(list(self.slots))

    def abandon(self) -> None:
        """Start no more slots, for the loop is being taken down; skip what was to be run."""
        self._ended = True
        while self._given:
            self._skip(self._given.popleft())
        self._receive()

    def _receive(self) -> None:
        """Take what other threads have handed over. On another thread only if the loop ends."""
        while True:
            try:
                lane = self._handed.popleft()
            except IndexError:
                return
            self._give_here(lane)

    def _give_here(self, lane: Lane) -> None:
        if self.turns.loop_ends():
            self._skip(lane)
            return
        self._given.append(lane)
        if not self._awake:
            self._wake()

    def _skip(self, lane: Lane) -> None:
        following: Lane | None = lane
        while following is not None and following.head is not None:
            following = self.turns.skipped(following, following.head, ON_LOOP)

    def _wake(self) -> None:
        """Have one more slot look at what was given."""
        while self._parked:
            slot = self._parked.pop()
            if slot.parked is not None and not slot.parked.done():
                self._rise(slot)
                slot.parked.set_result(None)
                return
        self._open()

    def _rise(self, slot: Slot) -> None:
        """Note that a slot will look at what was given."""
        slot.is_awake = True
        self._awake += 1

    def _rest(self, slot: Slot) -> None:
        """Note that a slot will not look at what was given: if nobody does, others are to."""
        slot.is_awake = False
        self._awake -= 1
        if not self._awake:
            for _ in range(len(self._given)):
                self._wake()

    def _open(self) -> None:
        slot = Slot()
        # Not by the loop's factory, which may have it begin before it is known to be there.
        slot.worker = SlotWorker(self._serve(slot), loop=self._loop, name="inturn-slot")
        slot.worker.slot = slot
        self.slots[slot.worker] = slot
        slot.worker.add_done_callback(self._close)
        self._rise(slot)

    def _close(self, worker: asyncio.Task[None]) -> None:
        """Put another slot in the place of one that was interrupted."""
        slot = self.slots.pop(worker, None)
        if slot is not None and slot.is_awake:
            slot.is_awake = False
            self._awake -= 1
        if not worker.cancelled():
            worker.exception()  # it went to the loop by itself; see _serve
        if self._given and not (self._awake or self._ended or self.turns.loop_ends()):
            self._wake()

    async def _serve(self, slot: Slot) -> None:
        """Run lanes until there are none for good."""
        given = self._given
        while True:
            while not given:
                if self._ended:
                    return
                slot.parked = self._loop.create_future()
                self._parked.append(slot)
                self._rest(slot)
                await slot.parked
            if not await self._run(slot, given.popleft()):
                return

    async def _run(self, slot: Slot, lane: Lane | None) -> bool:
        """Run lanes as long as one follows another; False if the slot must be left.

        A slot that was interrupted is left, because an interruption that came too late for one
        job must not strike the next.
        """
        turns, given = self.turns, self._given
        done, interrupted = turns.done, slot.worker.cancelling
        until = monotonic() + HOG_SECONDS_MAX
        self._stepping = slot
        while lane is not None:
            ticket = slot.ticket = lane.head
            assert ticket is not None
            if ticket.cancel_why is not None:
                lane = turns.skipped(lane, ticket, ON_LOOP)
                continue
            listening = turns.listeners
            began = perf_counter() if listening else 0.0
            failed: BaseException | None = None
            try:
                if ticket.begun is None:
                    ticket.attempts += 1
                    context = ticket.context
                    context = Context() if context is None else context.copy()
                    job = ticket.call()  # type: ignore[misc]
                else:  # on a thread, by a def that returned it
                    (job, context), ticket.begun = ticket.begun, None
                yielded = context.run(job.send, None)
            except StopIteration as end:
                value = end.value
            except BaseException as error:  # whatever it is, it ends the attempt, not the slot
                failed = error
            else:
                self._rest(slot)
                self._awaiting[ticket] = slot
                try:
                    value = await _steps(job, context, yielded)
                except BaseException as error:
                    failed = error
                del self._awaiting[ticket]
                self._stepping = slot
                self._rise(slot)
                until = monotonic() + HOG_SECONDS_MAX
            if listening:
                seconds = perf_counter() - began
                turns.tell_each(
                    events.Ran(ticket.key, ticket.shard, ticket.attempts, seconds, failed)
                )
            if failed is None:
                lane = done(lane, ticket, value, ON_LOOP)
            else:
                lane = turns.failed(lane, ticket, failed, ON_LOOP)
                if is_a(failed, KeyboardInterrupt):
                    self._leave(slot, lane)
                    raise failed  # a person wants the program to stop: the loop must know
                failed = None
            if interrupted():
                self._leave(slot, lane)
                return False
            if given:  # who got a slot first runs first
                if lane is not None:
                    given.append(lane)
                lane = given.popleft()
            if lane is not None and monotonic() > until:
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    self._leave(slot, lane)
                    return False
                self._stepping = slot
                until = monotonic() + HOG_SECONDS_MAX
        slot.ticket = None
        return True

    def _leave(self, slot: Slot, lane: Lane | None) -> None:
        """Leave a lane that this slot would have run to another."""
        slot.ticket = None
        if lane is not None and self._ended:
            self._skip(lane)
        elif lane is not None:
            self._given.appendleft(lane)


@coroutine
def _steps(
    job: CoroutineType[Any, Any, Any], context: Context, yielded: Any
) -> Generator[Any, Any, Any]:
    """Step a coroutine that has to wait on to its end, each step in its own context."""
    run = context.run
    while True:
        thrown: BaseException | None = None
        sent = None
        try:
            sent = yield yielded
        except BaseException as error:
            thrown = error
        try:
            yielded = run(job.send, sent) if thrown is None else run(job.throw, thrown)
        except StopIteration as end:
            return end.value

"""Slots: where jobs run, so many at once: ``async def`` on the event loop, ``def`` on threads.

A slot runs one job after another: a coroutine of its own steps the jobs on the loop, a thread calls
the others. So no task is made for a job, and one that never waits costs no more than its call. Each
job runs in a context of its own. Slots know lanes only by what ``Lane`` says; they take turns.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Generator
from contextlib import suppress
from contextvars import Context
from queue import SimpleQueue
from time import monotonic
from types import CoroutineType, coroutine
from typing import Any, ClassVar, Protocol

ON_LOOP = 0
ON_THREAD = 1

HOG_SECONDS_MAX = 0.002  # how long a slot goes on without letting the rest of the loop have a turn
JOIN_SECONDS_MAX = 5.0


class Lane(Protocol):
    """Jobs that slots run. What a job is, and what becomes of it, only its lane knows."""

    keeps_slot: ClassVar[bool]
    """Whether a slot goes on with its next job, instead of letting other lanes have a turn."""

    def next(self, place: int) -> Any | None:
        """Take the next job that is to run at a place; None if there is none any more.

        Called with ``Slots.lock`` held, which is held wherever jobs are taken out of a lane.
        """
        ...

    def context(self, job: Any) -> Context:
        """Return the context to run a job in."""
        ...

    def begin(self, job: Any) -> Any:
        """On the loop: return the job's coroutine, to be stepped. On a thread: run the job, in its
        context, and return its value.
        """
        ...

    def ended(self, job: Any, value: Any, error: BaseException | None) -> int | None:
        """Take in how a job ended. Return where the lane's next job runs, if it has one to run."""
        ...


class Slot:
    """One job at a time, of one lane, or nothing."""

    __slots__ = ("job", "lane", "parked", "task")

    def __init__(self) -> None:
        self.lane: Any = None
        self.job: Any = None
        self.task: SlotTask
        self.parked: asyncio.Future[None] | None = None

    def cancel(self) -> None:
        """Throw ``CancelledError`` into the job that runs on the loop. On the loop's thread."""
        self.task.cancel()


class SlotTask(asyncio.Task[None]):
    """The task of a slot on the loop, by which its job is known wherever it is the current one."""

    slot: Slot


class SlotThread(threading.Thread):
    """The thread of a slot. It does not keep the process from ending."""

    def __init__(self, slots: Slots, number: int) -> None:
        super().__init__(name=f"inturn-slot-{number}", daemon=True)
        self.slot = Slot()
        self._slots = slots

    def run(self) -> None:
        """Run jobs whenever there are some, until told to end."""
        while self._slots.calls.get():
            self._slots.serve_on_thread(self.slot)


def current_job() -> Any | None:
    """Return the job whose code calls this, whatever slots it runs on; None outside of jobs."""
    thread = threading.current_thread()
    if isinstance(thread, SlotThread):
        return thread.slot.job
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs here
        return None
    return task.slot.job if isinstance(task, SlotTask) else None


class Slots:
    """``count`` slots on the loop that runs here and on threads, made as they are needed.

    Lanes stand in line for a slot: those with a job for the loop in one line, those with one for a
    thread in another. While both wait, the last free slot goes to one and the other in turn.

    One slot is woken at a time: the next when a job has to wait, or on threads when it has begun.
    So jobs that never wait keep one slot busy, however many there are.
    """

    def __init__(self, count: int, lock: threading.Lock | None = None) -> None:
        self.count = count
        self.lock = lock or threading.Lock()
        self.on_loop: set[Slot] = set()
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self._free = count  # slots without a job
        self._waiting: tuple[deque[Lane], deque[Lane]] = (deque(), deque())
        self._lines = self._waiting, self._waiting[::-1]  # as each place sees them: its own first
        self._turn = ON_LOOP  # the line that the last free slot is for, while both wait
        self._is_ended = False
        self._awake = 0  # slots on the loop that will look at the line without being woken
        self._parked: list[Slot] = []
        self._threads: list[SlotThread] = []
        self._idle = 0  # threads that wait to be called
        self._is_calling = False  # a thread was called and has not looked at the line yet
        self.calls: SimpleQueue[bool] = SimpleQueue()  # of threads; False ends one

    @property
    def running(self) -> int:
        """How many jobs run."""
        return self.count - self._free

    @property
    def waiting(self) -> int:
        """How many lanes wait for a slot."""
        return len(self._waiting[ON_LOOP]) + len(self._waiting[ON_THREAD])

    @property
    def is_starting(self) -> bool:
        """Whether the loop has still to come to a job that has a slot."""
        return bool(self._free and self._waiting[ON_LOOP]) and not self._is_ended

    def add(self, lane: Lane, place: int, jobs: int = 1) -> None:
        """Let a lane stand in line for a slot; for several if its jobs may run side by side.

        From any thread, without ``lock``.
        """
        with self.lock:
            self._waiting[place].extend([lane] * jobs)
            self._call(place)

    def put(self, lane: Lane, place: int) -> None:
        """Let a lane stand in line for a slot, as ``add`` does. With ``lock`` held."""
        self._waiting[place].append(lane)
        self._call(place)

    def remove(self, lane: Lane) -> None:
        """Take a lane out of line. With ``lock`` held."""
        for line in self._waiting:
            with suppress(ValueError):
                line.remove(lane)

    def of(self, lane: Lane) -> list[Slot]:
        """Return the slots on the loop that run jobs of a lane. On the loop's thread."""
        return [slot for slot in self.on_loop if slot.lane is lane and slot.job is not None]

    async def end(self) -> None:
        """Run nothing more, and let what runs go on; end the slots that are idle."""
        with self.lock:
            self._is_ended = True
            parked, self._parked = self._parked, []
            for _ in self._threads:
                self.calls.put(False)
        for slot in parked:
            _wake(slot)
        if parked:
            await asyncio.wait([slot.task for slot in parked])

    def join(self) -> None:
        """Wait for the threads, when all has ended: what runs in them is not theirs to leave."""
        for thread in self._threads:
            thread.join(JOIN_SECONDS_MAX)

    # Who runs next

    def _next(self, slot: Slot, place: int, has_run: bool, again: int | None) -> Any | None:
        """Give a slot its next job; None lets it rest: there is none for it.

        ``has_run``: whether it has just ended a job. ``again``: where the lane of that has another.
        """
        self.lock.acquire()  # ``with`` would take twice as long, and this is done for each job
        try:
            mine, others = self._lines[place]
            if again is not None:
                if again == place and not others and slot.lane.keeps_slot:
                    mine.appendleft(slot.lane)
                else:
                    self._waiting[again].append(slot.lane)
            free = self._free + has_run
            while mine and free and not self._is_ended:
                if free == 1 and others and self._turn != place:
                    break
                lane = mine.popleft()
                self._free = free - 1
                job = lane.next(place)
                if job is not None:
                    slot.lane, slot.job = lane, job
                    if others:
                        self._turn = 1 - place
                        self._call(1 - place)
                    if free > 1 and mine and place == ON_THREAD:
                        self._call(place)
                    return job
            self._free = free
            if others:
                self._call(1 - place)
            slot.lane = slot.job = None
            if place == ON_THREAD:
                self._idle += 1
            else:
                self._awake -= 1
                if not self._is_ended:
                    slot.parked = self._loop.create_future()
                    self._parked.append(slot)
            return None
        finally:
            self.lock.release()

    def _call(self, place: int) -> None:
        """Have somebody look at a line, if there is a slot for it."""
        if not self._free or self._is_ended:
            return
        if place == ON_THREAD:
            if not self._is_calling:
                self._call_thread()
        elif not self._awake:
            self._awake += 1
            if threading.get_ident() == self._loop_thread:
                self._rise()
            else:
                with suppress(RuntimeError):  # the loop was closed: nothing runs there any more
                    self._loop.call_soon_threadsafe(self._rise)

    # On the loop

    def _rise(self) -> None:
        """Wake a slot, or make one. It is counted as awake already. On the loop's thread."""
        while self._parked:
            slot = self._parked.pop()
            if _wake(slot):
                return
        slot = Slot()
        # Not by the loop's factory, which may have it begin before it is known to be there.
        slot.task = SlotTask(self._serve(slot), loop=self._loop, name="inturn-slot")
        slot.task.slot = slot
        slot.task.add_done_callback(_look_at_end)
        self.on_loop.add(slot)

    async def _serve(self, slot: Slot) -> None:
        """Run jobs, one after the other, until told to end.

        A slot that was cancelled is left, and another takes its place: what came too late for one
        job must not strike the next.
        """
        task, given = slot.task, self._waiting[ON_LOOP]
        interrupted = task.cancelling
        has_run, again = False, None
        try:
            while not self._is_ended:
                until = monotonic() + HOG_SECONDS_MAX
                while (job := self._next(slot, ON_LOOP, has_run, again)) is not None:
                    has_run, lane = True, slot.lane
                    value = error = None
                    try:
                        context, steps = lane.context(job), lane.begin(job)
                        yielded = context.run(steps.send, None)
                    except StopIteration as end:
                        value = end.value
                    except BaseException as raised:  # it ends the job, not the slot
                        error = raised
                    else:
                        self._rest()
                        try:
                            value = await _steps(steps, context, yielded)
                        except BaseException as raised:
                            error = raised
                        with self.lock:
                            self._awake += 1
                        until = monotonic() + HOG_SECONDS_MAX
                    again = lane.ended(job, value, error)
                    if error is not None and isinstance(error, KeyboardInterrupt):
                        raise error  # a person wants the program to stop: the loop must know
                    value = error = None  # else this frame and the traceback hold each other
                    if interrupted():
                        return
                    if monotonic() > until:
                        slot.job = None
                        if given or again == ON_LOOP:
                            await asyncio.sleep(0)
                        until = monotonic() + HOG_SECONDS_MAX
                has_run, again, lane, job = False, None, None, None  # what it ran is not kept
                if slot.parked is None:
                    return
                await slot.parked
        finally:
            self._leave(slot, has_run, again)

    def _rest(self) -> None:
        """Note that a job has to wait: another slot looks at the line."""
        with self.lock:
            self._awake -= 1
            if self._waiting[ON_LOOP]:
                self._call(ON_LOOP)

    def _leave(self, slot: Slot, has_run: bool, again: int | None) -> None:
        """End a slot, and let another come for what it leaves."""
        with self.lock:
            self.on_loop.discard(slot)
            if slot in self._parked:
                self._parked.remove(slot)
            elif not (self._is_ended and slot.parked is None):
                self._awake -= 1
            self._free += has_run
            if again is not None:
                self._waiting[again].append(slot.lane)
            slot.lane = slot.job = None
            for place in (ON_LOOP, ON_THREAD):
                if self._waiting[place]:
                    self._call(place)

    # On threads

    def serve_on_thread(self, slot: Slot) -> None:
        """Run jobs, one after the other, until none is left."""
        with self.lock:
            self._is_calling = False
        has_run, again = False, None
        while (job := self._next(slot, ON_THREAD, has_run, again)) is not None:
            has_run, lane = True, slot.lane
            value = error = None
            try:
                value = lane.context(job).run(lane.begin, job)
            except BaseException as raised:  # whatever it is, it ends the job and not the thread
                error = raised
            again = lane.ended(job, value, error)
            value = error = None

    def _call_thread(self) -> None:
        if self._idle:
            self._idle -= 1
            self.calls.put(True)
            self._is_calling = True
        elif len(self._threads) < self.count:
            thread = SlotThread(self, len(self._threads))
            try:
                thread.start()
            except RuntimeError:  # the system gives us no more: do with those that there are
                if not self._threads:
                    raise
                return
            self._threads.append(thread)
            self.calls.put(True)
            self._is_calling = True


def _wake(slot: Slot) -> bool:
    """Let a slot look at the line; False if it was cancelled meanwhile."""
    parked, slot.parked = slot.parked, None
    if parked is None or parked.done():
        return False
    parked.set_result(None)
    return True


def _look_at_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()  # it went to the loop by itself


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

"""What becomes of a job after each attempt, and who runs next. Holds the executor's one lock.

Accepting, ending, cancelling and stopping all go through this lock, so that of any two of them one
comes first: what was accepted before a stop is run or reported, and no job ends twice.

What users gave us (errors, listeners, handlers, policies) is touched only outside the lock, and
only where nothing that it raises gets out: by ``policy.raised``, in ``_retry``, ``report`` and
``tell``. So a slot always finds its way to the next job.
"""

from __future__ import annotations

import contextlib
import threading
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from math import isnan
from random import Random
from types import TracebackType
from typing import Any, Protocol

from inturn.executor.call import ON_LOOP
from inturn.executor.current import current_job
from inturn.executor.home import Home
from inturn.executor.lane import Lane
from inturn.executor.lanes import Lanes
from inturn.executor.report import ErrorHandler, Failure
from inturn.executor.settings import ExecutorSettings
from inturn.executor.ticket import LocalTicket, State
from inturn.log import guarded, log_event, log_listener_failure, log_undecided
from inturn.model import bounds, events
from inturn.model.errors import JobCancelled, KeyHalted, WaitsForItself
from inturn.model.lane import OnDead
from inturn.policy.raised import describe, is_a
from inturn.policy.retry import RetryPolicy, after_failure
from inturn.policy.verdict import Retry

_ENDED = State.ENDED
_TRACEBACK: Any = vars(BaseException)["__traceback__"]  # past any __setattr__ and __getattribute__


class Slots(Protocol):
    """Where lanes run: the loop's slots, or the threads'."""

    def give(self, lane: Lane) -> None:
        """Run the head of a lane that has a slot, or end it. From any thread."""
        ...


class InterruptibleSlots(Slots, Protocol):
    """Slots whose jobs can be interrupted."""

    def interrupt(self, ticket: LocalTicket) -> None:
        """Throw CancelledError into a job, if it runs."""
        ...


class Turns:
    """The lanes, their lock, and the decisions after each attempt."""

    def __init__(
        self,
        settings: ExecutorSettings,
        policy: RetryPolicy,
        random: Random,
        listeners: Sequence[events.Listener],
        error_handler: ErrorHandler | None,
    ) -> None:
        self.lock = threading.Lock()
        self.lanes = Lanes(settings)
        self.halted: dict[str, str] = {}
        self.listeners = tuple(listeners)
        self.home: Home | None = None
        self.on_loop: InterruptibleSlots
        self.on_threads: Slots
        self.when_drained: Callable[[], None] | None = None  # set while stopping
        self.loop_ends: Callable[[], bool] = lambda: False
        self._halts = settings.on_dead is OnDead.HALT
        self._policy = policy
        self._random = random
        self._error_handler = error_handler

    # Ends of attempts, called by a slot. Each returns the lane that the slot runs next, if any.

    def done(self, lane: Lane, ticket: LocalTicket, value: object, place: int) -> Lane | None:
        """End a job well."""
        lanes = self.lanes
        with self.lock:
            ticket.value = value
            ticket.state = _ENDED
            ticket.call = ticket.context = ticket.lane = None
            following = lanes.ended(lane)
            signals = ticket.signals
            after = None
            if lanes.started or lanes.fired or self.when_drained is not None:
                after = self.leave()
        if signals is not None:
            ticket.signals = None  # they hold those who waited, and their loop
            for signal in signals:
                signal()
        if ticket.completions is not None:
            ticket.completions.add(ticket)
        if after is not None:
            self.follow_up(*after)
        if following is None or following.head.place == place:  # type: ignore[union-attr]
            return following
        self.start(following)
        return None

    def failed(
        self, lane: Lane, ticket: LocalTicket, error: BaseException, place: int
    ) -> Lane | None:
        """Retry a job, or end it for good."""
        _leave_out_ours(error)
        if ticket.cancel_why is not None or self.loop_ends():
            why = ticket.cancel_why or "its event loop ended"
            return self._end(lane, ticket, _cancelled(ticket, why, error), place, asked=True)
        if is_a(error, CancelledError):
            why = "it raised CancelledError, for which nobody had asked"
            return self._end(lane, ticket, _cancelled(ticket, why, error), place)
        retry = self._retry(ticket, error)
        if retry is None:
            return self._end(lane, ticket, error, place)
        if not retry.counted:
            ticket.attempts -= 1
        attempt, delay = ticket.attempts, retry.delay_seconds
        with self.lock:
            if ticket.cancel_why is None:
                following = self.lanes.sleep(lane)
                asleep, after = True, self.leave()
            else:  # cancelled since we looked
                asleep = False
        if not asleep:
            return self.failed(lane, ticket, error, place)
        self.tell(events.Retried(ticket.key, ticket.shard, attempt, delay, error))
        assert self.home is not None
        self.home.call(self._set_timer, lane, ticket, delay)
        self.follow_up(*after)
        return self._next(following, place)

    def skipped(self, lane: Lane, ticket: LocalTicket, place: int) -> Lane | None:
        """End a job that was cancelled after it got a slot and before it ran."""
        if ticket.begun is not None:
            with contextlib.suppress(BaseException):  # it may have begun, and not want to end
                ticket.begun[0].close()
            ticket.begun = None
        error = _cancelled(ticket, ticket.cancel_why or "its event loop ended", None)
        return self._end(lane, ticket, error, place, asked=True)

    def _next(self, following: Lane | None, place: int) -> Lane | None:
        if following is None or (following.head is not None and following.head.place == place):
            return following
        self.start(following)
        return None

    def _retry(self, ticket: LocalTicket, error: BaseException) -> Retry | None:
        if not is_a(error, Exception):
            return None  # SystemExit and its like: it ends the job, never the slot
        try:
            verdict = after_failure(
                ticket.attempts, error, policy=self._policy, random=self._random
            )
            return _possible(verdict) if isinstance(verdict, Retry) else None
        except BaseException as trouble:  # of the error, of a class in permanent, of random
            self._log(log_undecided, ticket.key, trouble)
            self._pass_on(trouble)
            return None

    def _set_timer(self, lane: Lane, ticket: LocalTicket, delay: float) -> None:
        assert self.home is not None
        timer = self.home.loop.call_later(delay, self._wake, lane, ticket)
        with self.lock:
            if ticket.state is State.RETRYING:
                lane.timer = timer
                return
        timer.cancel()  # the job was cancelled in the meantime

    def _wake(self, lane: Lane, ticket: LocalTicket) -> None:
        with self.lock:
            if ticket.state is not State.RETRYING or lane.head is not ticket:
                return
            self.lanes.wake(lane)
            after = self.leave()
        self.follow_up(*after)

    # The end of a job that did not end well: decided, then reported, then told to who waits.

    def _end(
        self,
        lane: Lane,
        ticket: LocalTicket,
        error: BaseException,
        place: int,
        *,
        asked: bool = False,
    ) -> Lane | None:
        with self.lock:
            ticket.state = State.ENDING
        self.report(ticket, error, cancelled=asked)
        left: list[LocalTicket] = []
        described = describe(error)
        halts = self._halts and not asked
        with self.lock:
            if not asked:
                self.lanes.note(ticket.key, described)
            if halts:
                self.halted[ticket.key] = described
                self.lanes.turn_away(KeyHalted(ticket.key, described), key=ticket.key)
                left, following = self.lanes.halt(lane)
            else:
                following = self.lanes.ended(lane)
            signals = self._publish(ticket, error)
            after = self.leave()
        for signal in signals:
            signal()
        if halts:
            self.tell(events.Halted(ticket.key, ticket.shard, described, len(left)))
            self.end_all(left, [KeyHalted(one.key, described) for one in left])
        self.follow_up(*after)
        return self._next(following, place)

    def report(self, ticket: LocalTicket, error: BaseException, *, cancelled: bool) -> None:
        """Tell the log, the listeners and the error handler of a job's bad end: once each."""
        handler = self._error_handler
        happened = events.Cancelled if cancelled else events.Failed
        self.tell(happened(ticket.key, ticket.shard, ticket.attempts, error, handler is not None))
        if handler is None:
            return
        try:
            handler(Failure(ticket.key, ticket.shard, ticket.attempts, error))
        except BaseException as failed:  # whatever it raises, jobs and slots go on
            self.tell(events.HandlerFailed(ticket.key, failed))
            self._pass_on(failed)

    def end_all(self, tickets: Sequence[LocalTicket], errors: Sequence[BaseException]) -> None:
        """Report and end jobs that are out of line already."""
        for ticket, error in zip(tickets, errors, strict=True):
            self.report(ticket, error, cancelled=not isinstance(error, KeyHalted))
            with self.lock:
                self.lanes.ending -= 1
                signals = self._publish(ticket, error)
                after = self.leave()
            for signal in signals:
                signal()
            self.follow_up(*after)

    def _publish(self, ticket: LocalTicket, error: BaseException) -> Sequence[Callable[[], None]]:
        ticket.error = error
        ticket.trace = _TRACEBACK.__get__(error)
        ticket.state = State.ENDED
        ticket.call = ticket.context = ticket.lane = None
        signals = list(ticket.signals or ())
        ticket.signals = None
        if ticket.completions is not None:
            completions = ticket.completions
            signals.append(lambda: completions.add(ticket))
        return signals

    # Cancelling

    def cancel(self, ticket: LocalTicket, why: str) -> bool:
        """Take a job back; say whether it had not ended."""
        timer = None
        with self.lock:
            state = ticket.state
            if state in (State.ENDING, State.ENDED, State.OFFERED):
                return False
            if ticket.cancel_why is None:
                ticket.cancel_why = why
            if state is not State.RUNNING:
                if state is State.RETRYING and ticket.lane is not None:
                    timer, ticket.lane.timer = ticket.lane.timer, None
                self.lanes.withdraw(ticket)
            after = self.leave()
        assert self.home is not None
        if timer is not None:
            self.home.call(timer.cancel)
        if state is State.RUNNING:
            self.home.call(self.on_loop.interrupt, ticket)
        else:
            self.end_all([ticket], [_cancelled(ticket, why, None)])
        self.follow_up(*after)
        return True

    def abort(self, why: str) -> None:
        """Cancel everything that was accepted and has not ended."""
        with self.lock:
            timers = [lane.timer for lane in self.lanes.lanes.values() if lane.timer is not None]
            left = self.lanes.abort()
            running = [lane.head for lane in self.lanes.lanes.values() if lane.head is not None]
            after = self.leave()
        if left or running:
            self.tell(events.Aborted(len(left), len(running), why))
        assert self.home is not None
        for timer in timers:
            self.home.call(timer.cancel)
        for ticket in running:
            self.cancel(ticket, why)
        self.end_all(left, [_cancelled(one, why, None) for one in left])
        self.follow_up(*after)

    # Waiting for the end of a job

    def on_end(self, ticket: LocalTicket, signal: Callable[[], None]) -> bool:
        """Have a signal called when a job ends; False if it has."""
        with self.lock:
            if ticket.state is State.ENDED:
                return False
            if ticket.signals is None:
                ticket.signals = [signal]
            else:
                ticket.signals.append(signal)
            return True

    def forget(self, ticket: LocalTicket, signal: Callable[[], None]) -> None:
        """Take a signal back that is not waited for any more."""
        if ticket.state is State.ENDED:
            return
        with self.lock:
            if ticket.signals is not None and signal in ticket.signals:
                ticket.signals.remove(signal)

    def current(self) -> LocalTicket | None:
        """Return the job that calls this, if it is one of these."""
        job = current_job()
        return job if job is not None and job.turns is self else None

    def check_not_own(self, verb: str, key: str) -> None:
        """Refuse to a job to wait for what stands behind it in line, or for itself."""
        if (current := self.current()) is not None and current.key == key:
            raise WaitsForItself(verb, key)

    def check_may_block(self, verb: str) -> None:
        """Refuse to block the loop that would have to end the wait."""
        if self.home is not None and self.home.runs_here:
            raise WaitsForItself(verb, None)

    def depths(self) -> list[int]:
        """Return how many jobs wait in each shard, between attempts too; none that runs."""
        return list(self.lanes.room.depths)

    # After the lock

    def leave(self) -> tuple[list[Lane], list[Callable[[], None]], bool]:
        """Take what is to be done after the lock; called as the last thing under it."""
        lanes = self.lanes
        started, fired = lanes.started, lanes.fired
        lanes.started, lanes.fired = [], []
        return started, fired, self.when_drained is not None and lanes.drained

    def follow_up(
        self, started: list[Lane], fired: list[Callable[[], None]], drained: bool
    ) -> None:
        """Do what was left to be done outside the lock."""
        for lane in started:
            self.start(lane)
        for signal in fired:
            signal()
        if drained and self.when_drained is not None:
            self.when_drained()

    def start(self, lane: Lane) -> None:
        """Give a lane that has a slot to where its head runs."""
        assert lane.head is not None
        slots = self.on_loop if lane.head.place == ON_LOOP else self.on_threads
        slots.give(lane)

    def tell(self, event: events.Event) -> None:
        """Tell the log and the listeners; one that fails harms nothing."""
        self._log(log_event, event)
        self.tell_each(event)

    def tell_each(self, event: events.Event) -> None:
        """Tell the listeners what happens for every job, and the log need not know."""
        for listener in self.listeners:
            try:
                listener(event)
            except BaseException as error:  # whatever it raises, jobs and slots go on
                self._log(log_listener_failure, listener, error)
                self._pass_on(error)

    def _log(self, say: Callable[..., None], about: object, *more: object) -> None:
        self._pass_on(guarded(say, about, *more))

    def _pass_on(self, error: BaseException | None) -> None:
        """Let the loop know of a Ctrl-C that struck while someone was told of something."""
        if is_a(error, KeyboardInterrupt) and self.home is not None:
            self.home.interrupt(error)


def _cancelled(ticket: LocalTicket, why: str, cause: BaseException | None) -> JobCancelled:
    error = JobCancelled(ticket.key, why)
    error.__cause__ = cause
    return error


def _possible(retry: Retry) -> Retry:
    """Return a retry after a time that a timer takes, whatever a job asked for."""
    delay = float(retry.delay_seconds)
    delay = 0.0 if isnan(delay) else min(max(delay, 0.0), bounds.WAIT_SECONDS_MAX)
    return Retry(delay, retry.error, bool(retry.counted))


def _leave_out_ours(error: BaseException) -> None:
    """Leave our own frames out of a traceback: they say nothing, and would be kept alive by it."""
    trace: TracebackType | None = _TRACEBACK.__get__(error)
    while trace is not None and trace.tb_frame.f_globals.get("__package__") == __package__:
        trace = trace.tb_next
    _TRACEBACK.__set__(error, trace)

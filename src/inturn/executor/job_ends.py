"""What becomes of a job that did not end well: it is retried, or it has failed and is reported.

Accepting, ending, cancelling and stopping all go through the one lock, so that of any two of them
one comes first: what was accepted before a stop is run or reported, and no job ends twice. What
users gave us (errors, listeners, handlers, policies) is touched outside the lock only, and nothing
that it raises gets out.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Sequence
from random import Random
from types import TracebackType
from typing import Any

from inturn.executor.admission import Admission
from inturn.executor.lanes import Lane, Lanes, Skipped
from inturn.executor.settings import ErrorHandler, ExecutorSettings, Failure
from inturn.executor.slots import current_job
from inturn.executor.ticket import LocalTicket, State
from inturn.log import guarded, log_event, log_listener_failure
from inturn.model import bounds, events
from inturn.model.errors import JobCancelled, KeyHalted, WaitsForItself
from inturn.model.lane import OnDead
from inturn.policy.raised import describe
from inturn.policy.retry import RetryPolicy, after_failure
from inturn.policy.verdict import Retry

_ENDED = State.ENDED


class JobEnds:
    """The lanes, their lock, and the decisions after an attempt that did not go well."""

    def __init__(
        self,
        settings: ExecutorSettings,
        policy: RetryPolicy,
        random: Random,
        listeners: Sequence[events.Listener],
        error_handler: ErrorHandler | None,
    ) -> None:
        self.lock = threading.Lock()
        self.lanes = Lanes(settings.slots)
        self.admission = self.lanes.admission = Admission(self.lanes, settings)
        self.halted: dict[str, str] = {}
        self.listeners = tuple(listeners)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.keeper: asyncio.Task[None] | None = None  # cancelled when the loop is taken down
        self._halts = settings.on_dead is OnDead.HALT
        self._policy, self._random = policy, random
        self._error_handler = error_handler

    # Ends of attempts. Each returns where the lane's next job runs, if any.

    @property
    def loop_ends(self) -> bool:
        """Whether the loop was taken down, or is just being."""
        keeper = self.keeper
        return keeper is not None and (keeper.cancelling() > 0 or keeper.cancelled())

    def failed(self, lane: Lane, ticket: LocalTicket, error: BaseException) -> int | None:
        """Retry a job, or end it for good."""
        _leave_out_ours(error)
        retry = self._retry(ticket, error)
        with self.lock:
            asked = ticket.cancel_why is not None or self.loop_ends
            if retry is not None and not asked:
                ticket.attempts -= not retry.counted
                attempt = ticket.attempts
                self.lanes.sleep(lane)
        if asked:
            cause = None if isinstance(error, Skipped) else error
            error = cancelled(ticket, ticket.cancel_why or "its event loop ended", cause)
        elif retry is not None:
            delay = retry.delay_seconds
            self.tell(events.Retried(ticket.key, ticket.shard, attempt, delay, error))
            self.on_loop(self._set_timer, lane, ticket, delay)
            return None
        elif isinstance(error, CancelledError):
            why = "it raised CancelledError, for which nobody had asked"
            error = cancelled(ticket, why, error)
        return self._end(lane, ticket, error, asked=asked)

    def _retry(self, ticket: LocalTicket, error: BaseException) -> Retry | None:
        """Return when a job is to run again, if it is. One that waits for itself always would."""
        if isinstance(error, WaitsForItself) or not isinstance(error, Exception):
            return None
        verdict = after_failure(ticket.attempts, error, policy=self._policy, random=self._random)
        if not isinstance(verdict, Retry):
            return None
        delay = min(max(verdict.delay_seconds, 0.0), bounds.WAIT_SECONDS_MAX)
        return Retry(delay, verdict.error, bool(verdict.counted))

    def _set_timer(self, lane: Lane, ticket: LocalTicket, delay: float) -> None:
        assert self.loop is not None
        with self.lock:
            if ticket.state is State.RETRYING and lane.is_asleep:
                lane.timer = self.loop.call_later(delay, self._wake, lane, ticket)

    def _wake(self, lane: Lane, ticket: LocalTicket) -> None:
        with self.lock:
            lane.timer = None
            if ticket.state is State.RETRYING and lane.head is ticket and lane.is_asleep:
                self.lanes.wake(lane)

    # The end of a job: decided, then reported, then told to those that wait for it.

    def _end(
        self, lane: Lane, ticket: LocalTicket, error: BaseException, *, asked: bool
    ) -> int | None:
        ticket.state = State.ENDING
        self._report(ticket, error, is_cancelled=asked)
        left: list[LocalTicket] = []
        described = describe(error)
        halts = self._halts and not asked
        with self.lock:
            if not asked:
                self.lanes.note(ticket.key, described)
            if halts:
                self.halted[ticket.key] = described
                left = self.lanes.empty(lane)
                self.admission.turn_away(KeyHalted(ticket.key, described), key=ticket.key)
            signals = _publish(ticket, error)
            again = self.lanes.go_on(lane)
        for signal in signals:
            signal()
        if halts:
            self.tell(events.Halted(ticket.key, ticket.shard, described, len(left)))
            self.end_all((one, KeyHalted(one.key, described)) for one in left)
        return again

    def end_all(self, ended: Iterable[tuple[LocalTicket, BaseException]]) -> None:
        """Report and end jobs that are out of line already."""
        for ticket, error in ended:
            self._report(ticket, error, is_cancelled=not isinstance(error, KeyHalted))
            with self.lock:
                self.lanes.ending -= 1
                signals = _publish(ticket, error)
                self.lanes.look_for_end()
            for signal in signals:
                signal()

    def _report(self, ticket: LocalTicket, error: BaseException, *, is_cancelled: bool) -> None:
        """Tell the log, the listeners and the error handler of a job's bad end: once each."""
        handler = self._error_handler
        happened = events.Cancelled if is_cancelled else events.Failed
        self.tell(happened(ticket.key, ticket.shard, ticket.attempts, error, handler is not None))
        if handler is None:
            return
        try:
            handler(Failure(ticket.key, ticket.shard, ticket.attempts, error))
        except BaseException as failed:  # whatever it raises, jobs and slots go on
            self.tell(events.HandlerFailed(ticket.key, failed))

    # Cancelling

    def cancel(self, ticket: LocalTicket, why: str) -> bool:
        """Take a job back; say whether it had not ended."""
        with self.lock:
            state = ticket.state
            if state in (State.ENDING, _ENDED):
                return False
            ticket.cancel_why, timer = ticket.cancel_why or why, None
            if state is not State.RUNNING:
                lane = self.lanes.by_key[ticket.key]
                if ticket is lane.head:
                    timer, lane.timer = lane.timer, None
                self.lanes.take_out(ticket)
        if timer is not None:
            self.on_loop(timer.cancel)
        if state is State.RUNNING:
            self.on_loop(self._interrupt, ticket)
        else:
            self.end_all([(ticket, cancelled(ticket, why, None))])
        return True

    def abort(self, why: str) -> None:
        """Cancel everything that was accepted and has not ended."""
        with self.lock:
            timers = [lane.timer for lane in self.lanes.by_key.values() if lane.timer is not None]
            left, lanes = self.lanes.abort()
            running = [lane.head for lane in lanes if lane.head is not None]
            for ticket in running:
                ticket.cancel_why = ticket.cancel_why or why
        if left or running:
            self.tell(events.Aborted(len(left), len(running), why))
        self.on_loop(self._interrupt, *running)
        for timer in timers:
            self.on_loop(timer.cancel)
        self.end_all((one, cancelled(one, why, None)) for one in left)

    def _interrupt(self, *tickets: LocalTicket) -> None:
        """Throw CancelledError into jobs, if they run on the loop."""
        wanted = {id(ticket) for ticket in tickets}
        for slot in list(self.lanes.slots.on_loop):
            if slot.job is not None and id(slot.job) in wanted:
                slot.cancel()

    # Waiting for the end of a job

    def on_end(self, ticket: LocalTicket, signal: Callable[[], None]) -> bool:
        """Have a signal called when a job ends; False if it has."""
        with self.lock:
            if ticket.state is _ENDED:
                return False
            if ticket.signals is None:
                ticket.signals = [signal]
            else:
                ticket.signals.append(signal)
            return True

    def forget(self, ticket: LocalTicket, signal: Callable[[], None]) -> None:
        """Take a signal back that is not waited for any more."""
        if ticket.state is not _ENDED:
            with self.lock:
                if ticket.signals is not None and signal in ticket.signals:
                    ticket.signals.remove(signal)

    def current(self) -> LocalTicket | None:
        """Return the job that calls this, if it is one of these."""
        job = current_job()
        return job if isinstance(job, LocalTicket) and job.ends is self else None

    def check_not_own(self, verb: str, key: str) -> None:
        """Refuse to a job to wait for what stands behind it in line, or for itself."""
        if (current := self.current()) is not None and current.key == key:
            raise WaitsForItself(verb, key)

    def check_may_block(self, verb: str) -> None:
        """Refuse to block the loop that would have to end the wait."""
        if self.is_here:
            raise WaitsForItself(verb, None)

    @property
    def is_here(self) -> bool:
        """Whether the executor's loop runs on this thread."""
        return self.loop is not None and asyncio._get_running_loop() is self.loop

    # Telling

    def tell(self, event: events.Event) -> None:
        """Tell the log and the listeners; one that fails harms nothing."""
        guarded(log_event, event)
        self.tell_each(event)

    def tell_each(self, event: events.Event) -> None:
        """Tell the listeners what happens for every job, and the log need not know."""
        for listener in self.listeners:
            try:
                listener(event)
            except BaseException as error:  # whatever it raises, jobs and slots go on
                guarded(log_listener_failure, listener, error)

    def on_loop(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on the loop's thread: at once if this is it, else soon."""
        assert self.loop is not None
        if self.is_here:
            function(*arguments)
            return
        with contextlib.suppress(RuntimeError):  # the loop was closed: nothing is left there
            self.loop.call_soon_threadsafe(function, *arguments)


def _publish(ticket: LocalTicket, error: BaseException) -> Sequence[Callable[[], None]]:
    if ticket.begun is not None:
        with contextlib.suppress(BaseException):  # it has not begun, and is not awaited any more
            ticket.begun.close()
    ticket.error, ticket.trace = error, error.__traceback__
    ticket.state = _ENDED
    ticket.call = ticket.context = ticket.begun = None
    signals, ticket.signals = ticket.signals or (), None
    return signals


def cancelled(ticket: LocalTicket, why: str, cause: BaseException | None) -> JobCancelled:
    """Return the error of a job that was cancelled."""
    error = JobCancelled(ticket.key, why)
    error.__cause__ = cause
    return error


def _leave_out_ours(error: BaseException) -> None:
    """Leave our own frames out of a traceback: they say nothing, and would be kept alive by it."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__package__") == __package__:
        trace = trace.tb_next
    BaseException.with_traceback(error, trace)

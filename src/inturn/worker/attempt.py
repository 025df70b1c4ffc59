"""One attempt at one job: its payload read, its handler called, its outcome a verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from time import perf_counter
from types import CoroutineType
from typing import Any, Protocol

import msgspec

from inturn.executor.slots import ON_LOOP, ON_THREAD
from inturn.log import log_not_ended
from inturn.model import bounds
from inturn.model.errors import InvalidPayload, PayloadMismatch, PayloadTooLarge
from inturn.model.job import LeasedJob
from inturn.policy.raised import describe
from inturn.policy.retry import Reject, RetryLater, after_failure
from inturn.policy.settlement import (
    PLAINLY_DONE,
    Outcome,
    error_text,
    keepable,
    reason_text,
    traceback_text,
)
from inturn.policy.verdict import Bury, Done, Release, Retry, Verdict
from inturn.queue.arguments import encode_result
from inturn.queue.context import AttemptStore, Context
from inturn.queue.job import Job
from inturn.worker.attempt_store import LeaseStore
from inturn.worker.handler_threads import on_own_thread
from inturn.worker.process_pool import ChildPool
from inturn.worker.runs import Run
from inturn.worker.stop import Stop
from inturn.worker.traceback import trace_of
from inturn.worker.watchdog import GRACE_SECONDS, Watchdog, took_too_long


class Observer(Protocol):
    """Is told of attempts as they are made, on the thread where that is."""

    def began(self, job: LeasedJob) -> None:
        """Hear that a handler is about to be called."""
        ...

    def failed(self, job: LeasedJob, error: Exception) -> None:
        """Hear what an attempt failed with, before the store knows of it."""
        ...


class Attempts:
    """Makes attempts at the jobs of one kind. An attempt never raises: it has an outcome.

    ``watchdog``: ends what takes too long; None in a child process, which its worker ends.
    ``children``: the processes where the attempts are made, if they are made in some.
    """

    def __init__(
        self,
        job: Job[Any, Any],
        random: Random,
        *,
        watchdog: Watchdog | None,
        children: ChildPool | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._job = job
        self._observer = observer
        self._random = random
        self._watchdog = watchdog
        self._children = children
        self._is_surrounded = job.app.hooks.has_arounds
        self._has_context = job.has_context or self._is_surrounded
        self.is_on_loop = job.is_async or self._is_surrounded
        self.place = ON_LOOP if self.is_on_loop or children is not None else ON_THREAD
        # A thread goes on, and what surrounds it must as well.
        self.is_cancellable = job.is_async or children is not None
        self.is_plain = job.is_async and not self._has_context

    def begin(self, run: Run, leased: LeasedJob) -> Any:
        """Make an attempt on this thread and return its outcome; of one that is made on the loop,
        return the coroutine.

        Most handlers have no context, and so need no store.
        """
        if self._job.timeout is not None:
            leased = self.timed(leased)
        if self.is_plain and self._children is None:
            return self.plainly(leased)
        if self.place == ON_LOOP:
            return self._with_store(run, leased)
        if not self._has_context:
            return self.on_thread(run.lease.token, leased, None)
        store = self._store_of(run, leased)
        outcome = self.on_thread(run.lease.token, leased, store)
        store.end()
        return outcome

    def timed(self, leased: LeasedJob) -> LeasedJob:
        """Return a job with its handler's timeout, if it was submitted without one, as by SQL."""
        if leased.timeout_seconds is not None or self._job.timeout is None:
            return leased
        return msgspec.structs.replace(leased, timeout_seconds=self._job.timeout)

    async def plainly(self, leased: LeasedJob) -> Outcome:
        """Make an attempt with an ``async def`` that has no context and that nothing surrounds."""
        began = perf_counter()
        try:
            args, kwargs = self._arguments(leased)
            if leased.timeout_seconds is None:
                value = await self._job.function(*args, **kwargs)
            else:
                value = await self._awaited(args, kwargs, leased)
            verdict: Verdict = PLAINLY_DONE if value is None else self._done(value)
        except BaseException as error:
            verdict = self._raised(leased, error)
        return Outcome(leased, verdict, perf_counter() - began)

    async def on_loop(self, token: int, leased: LeasedJob, store: AttemptStore) -> Outcome:
        """Make an attempt with a handler that is an ``async def``, or that something surrounds."""
        began = perf_counter()
        try:
            verdict: Verdict = self._done(await self._value(token, leased, store))
        except BaseException as error:
            verdict = self._raised(leased, error)
        return Outcome(leased, verdict, perf_counter() - began)

    async def value(self, leased: LeasedJob, run: Run, store: AttemptStore) -> Any:
        """Run a handler as a part of another's attempt; return what it returns, or raise that."""
        leased = self.timed(leased)
        if self._children is None:
            return await self._value(run.lease.token, leased, store)
        child = await self._children.take()
        verdict = await self._children.attempt(child, run.lease.token, leased, store)
        match verdict:
            case Done(result_lost=None, result=result):
                return None if result is None else msgspec.json.decode(result)
            case Done(result_lost=why):
                raise RuntimeError(why)
            case Bury(error=error):
                raise Reject(error)
            case Retry(error=error):
                raise RuntimeError(error)
        raise RuntimeError("it was given back by its process")

    async def _value(self, token: int, leased: LeasedJob, store: AttemptStore) -> Any:
        args, kwargs = self._arguments(leased)
        context = self._context(token, leased, store)
        if self._job.has_context:
            args = [context, *args]
        if self._is_surrounded:
            return await self._job.app.hooks.surround(
                context, lambda: self._awaited(args, kwargs, leased)
            )
        return await self._awaited(args, kwargs, leased)

    def on_thread(self, token: int, leased: LeasedJob, store: AttemptStore | None) -> Outcome:
        """Make an attempt with a handler that is a ``def``. ``store``: if it has a context."""
        began = perf_counter()
        try:
            args, kwargs = self._arguments(leased)
            if self._has_context and store is not None:
                args = [self._context(token, leased, store), *args]
            verdict: Verdict = self._done(self._called(args, kwargs, leased))
        except BaseException as error:
            verdict = self.failed(leased, error)
        return Outcome(leased, verdict, perf_counter() - began)

    def _arguments(self, leased: LeasedJob) -> tuple[list[Any], dict[str, Any]]:
        arguments = self._job.arguments.decode(leased.payload)
        if self._observer is not None:
            self._observer.began(leased)
        return arguments

    async def _with_store(self, run: Run, leased: LeasedJob) -> Outcome:
        """Make an attempt that may use the store, or that a child process makes."""
        store = self._store_of(run, leased)
        try:
            if self._children is None:
                return await self.on_loop(run.lease.token, leased, store)
            return await self._in_child(self._children, run, leased, store)
        finally:
            store.end()

    async def _in_child(
        self, children: ChildPool, run: Run, leased: LeasedJob, store: LeaseStore
    ) -> Outcome:
        """Make an attempt in a child process."""
        began = perf_counter()
        verdict: Verdict
        try:
            child = await children.take()
            if run.runs.stop >= Stop.FINISH or not run.is_ours:  # to start a child may take long
                children.keep(child)
                return Outcome(leased, Release())
            verdict = await children.attempt(child, run.lease.token, leased, store)
        except Exception as error:
            verdict = self.failed(leased, error)
        return Outcome(leased, verdict, perf_counter() - began)

    def _store_of(self, run: Run, leased: LeasedJob) -> LeaseStore:
        runs = run.runs
        return LeaseStore(runs.store, runs.worker, run, leased, runs.lease_seconds, self._job.app)

    def _raised(self, leased: LeasedJob, error: BaseException) -> Verdict:
        """Decide what becomes of a job whose attempt on the loop raised an error.

        Raises it if someone wants what runs here to end: nobody waits for the outcome any more.
        """
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            raise error
        return self.failed(leased, error)

    def failed(self, leased: LeasedJob, error: BaseException) -> Verdict:
        """Decide what becomes of a job whose attempt failed."""
        if self._observer is not None and isinstance(error, Exception):
            self._observer.failed(leased, error)
        if isinstance(error, PayloadMismatch):
            return Bury(str(error))
        verdict = after_failure(
            leased.attempt,
            _in_words(error),
            policy=self._job.retry,
            random=self._random,
            attempts_max=leased.attempts_max,
        )
        # One that asked to come later has not failed anywhere.
        trace = None if isinstance(error, RetryLater) else trace_of(error)
        if type(verdict) is Bury:
            return _sayable(Bury(verdict.error, verdict.reason, trace))
        assert type(verdict) is Retry
        delay_seconds = _possible(verdict.delay_seconds)
        return _sayable(Retry(delay_seconds, verdict.error, bool(verdict.counted), trace))

    def _awaited(
        self, args: list[Any], kwargs: dict[str, Any], leased: LeasedJob
    ) -> Awaitable[Any]:
        if not self._job.is_async:
            return on_own_thread(lambda: self._called(args, kwargs, leased))
        call: Awaitable[Any] = self._job.function(*args, **kwargs)
        if leased.timeout_seconds is None or self._watchdog is None:
            return call
        return _timed(call, leased.kind, leased.timeout_seconds)

    def _called(self, args: list[Any], kwargs: dict[str, Any], leased: LeasedJob) -> Any:
        if leased.timeout_seconds is None or self._watchdog is None:
            return self._job.function(*args, **kwargs)
        call = partial(self._job.function, *args, **kwargs)
        return self._watchdog.call(leased.kind, leased.timeout_seconds, call)

    def _context(self, token: int, leased: LeasedJob, store: AttemptStore) -> Context:
        deadline = None
        if leased.timeout_seconds is not None:
            deadline = datetime.now(UTC) + timedelta(seconds=leased.timeout_seconds)
        return Context(leased, token, deadline, store)

    def _done(self, value: Any) -> Done:
        if value is None:
            return PLAINLY_DONE
        self._check_awaited(value)
        if self._job.keep_result is None:
            return PLAINLY_DONE
        try:
            return Done(encode_result(value), self._job.keep_result)
        except (InvalidPayload, PayloadTooLarge) as error:
            lost = str(error)
        except BaseException as error:  # of a property or a validator of its own
            lost = f"the result cannot be written as JSON: {describe(error)}."
        return Done(None, self._job.keep_result, keepable(lost))  # not again: its work is done

    def _check_awaited(self, value: Any) -> None:
        """Refuse a coroutine: of an attempt that only made one, the work was not done."""
        if type(value) is CoroutineType:
            value.close()
            raise Reject(
                f"{value.__qualname__}() is an `async def` that was called and not awaited, so "
                f"that nothing of it ran: job {self._job.kind!r} returned its coroutine. If a "
                f"decorator stands between it and @app.job, make what that returns an `async def`, "
                f"too."
            )


async def _timed(call: Awaitable[Any], kind: str, seconds: float) -> Any:
    """Await a handler and cancel it at its timeout. However it takes that, the attempt failed."""
    loop = asyncio.get_running_loop()
    complain = partial(log_not_ended, kind, seconds, on_thread=False)
    late = loop.call_later(seconds, lambda: begin_grace())

    def begin_grace() -> None:  # from its cancelling on: a loop that was blocked cancels late
        nonlocal late
        late = loop.call_later(GRACE_SECONDS, complain)

    timer, began = asyncio.timeout(seconds), loop.time()
    try:
        async with timer:
            value = await call
    except BaseException as error:
        if timer.expired() and not _is_cancelled():
            raise took_too_long(seconds) from (error.__cause__ or error)  # where the handler was
        raise
    finally:
        late.cancel()
    if timer.expired() or loop.time() - began > seconds:  # it never let the loop turn
        raise took_too_long(seconds)
    return value


def _is_cancelled() -> bool:
    """Whether someone wants what runs here to end; else a CancelledError is the handler's own."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def _in_words(error: BaseException) -> BaseException:
    """Return an error that says what a person should know of one that says little by itself."""
    if isinstance(error, SystemExit):
        return SystemExit(f"it called sys.exit({'' if error.code is None else repr(error.code)})")
    if type(error) in (KeyboardInterrupt, GeneratorExit, asyncio.CancelledError):
        return type(error)("the handler raised it by itself, for nobody had asked it to end")
    return error


def _sayable(verdict: Retry | Bury) -> Retry | Bury:
    """Return a verdict whose words can go anywhere: to a store, into JSON, from a child process.

    Whatever a handler raised is text as Python has it, which may hold half of a character.
    """
    error, traceback = error_text(verdict), traceback_text(verdict)
    if isinstance(verdict, Retry):
        return msgspec.structs.replace(verdict, error=error, traceback=traceback)
    reason = None if verdict.reason is None else reason_text(verdict)
    return Bury(error, reason, traceback)


def _possible(delay_seconds: float) -> float:
    """Return a delay that a store takes, whatever a handler asked for."""
    return min(max(float(delay_seconds), 0.0), bounds.DELAY_SECONDS_MAX)

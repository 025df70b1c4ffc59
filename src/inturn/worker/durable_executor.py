"""The executor with a store behind it: what it accepts survives the process, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from math import inf
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

from inturn.executor.job_call import pairs_of
from inturn.executor.settings import (
    ErrorHandler,
    Failure,
    Seconds,
    check_error_handler,
    checked_listeners,
    seconds,
)
from inturn.log import guarded, log_event, log_executor_ended, log_listener_failure
from inturn.model import bounds, events, worker_events
from inturn.model.admissible import check_name, shown
from inturn.model.errors import (
    AttemptFailed,
    BadInput,
    EarlierFailure,
    ExecutorClosed,
    QueueFull,
    ResultTimeout,
)
from inturn.model.job import DeadLetter, JobView, LeasedJob
from inturn.model.lane import LaneState, LaneView
from inturn.model.spelling import whole
from inturn.queue.app import App
from inturn.queue.job import Call, Job
from inturn.queue.ticket import Ticket
from inturn.store.store import Store
from inturn.worker.worker import Worker

R = TypeVar("R")

FULL_SECONDS = 0.02  # between two tries while a queue is full
LOOK_SECONDS_FIRST, LOOK_SECONDS_MAX = 0.005, 0.25  # between two looks at a line
ENDED_SECONDS = 5.0  # between two looks whether anything runs here, while a result is awaited
GIVE_UP_SECONDS = 5.0  # for a worker that is told to stop at once
STOP_LOOK_SECONDS = 0.01


class DurableExecutor:
    """Runs jobs of an app: those of one key one at a time and in order, keys in parallel.

    ``submit`` returns when the job is in the app's store. What has not ended when the process does
    runs after the next start, in its order. Behind it is a ``Worker`` on this event loop, which
    runs whatever waits in the queues of the app's jobs, whoever submitted it.

    - ``slots``: how many keys run at once;
    - ``enqueue_timeout``: how long ``submit`` tries again while the queue is full; 0 tries once;
    - ``error_handler``, ``listeners``: as without a store, for jobs that fail here;
    - ``lease_seconds``, ``sweep_seconds``: as of a ``Worker``.
    """

    def __init__(
        self,
        *,
        app: App,
        slots: int = 4,
        enqueue_timeout: Seconds = 0.1,
        error_handler: ErrorHandler | None = None,
        listeners: Sequence[events.Listener] = (),
        lease_seconds: float = bounds.LEASE_SECONDS_DEFAULT,
        sweep_seconds: float = 10.0,
    ) -> None:
        check_error_handler(error_handler)
        self.app, self.enqueue_timeout = app, seconds("enqueue_timeout", enqueue_timeout)
        self._error_handler, self._listeners = error_handler, checked_listeners(listeners)
        self._worker = Worker(
            app,
            concurrency=slots,
            lease_seconds=lease_seconds,
            sweep_seconds=sweep_seconds,
            listeners=[self._hear],
            observer=self,
        )
        self._running: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._since: datetime | None = None  # by the store's clock: when it started
        self._errors: dict[UUID, Exception] = {}  # of jobs whose settlement is on its way
        self._told: dict[str, datetime] = {}  # by key: the latest death that a barrier told

    # Submitting

    async def submit(self, key: str, job: Call[R], *, timeout: Seconds | None = None) -> Ticket[R]:
        """Accept a job, ``send.call(to=…)``: it is in the store, and runs after those before it.

        While its queue is full it is tried again up to ``timeout`` (or ``enqueue_timeout``). One
        that is cancelled may have been accepted or not; a ``dedupe`` key makes a repeat harmless.
        """
        [ticket] = await self.submit_many([(key, job)], timeout=timeout)
        return ticket

    async def submit_many(
        self, jobs: Iterable[tuple[str, Call[R]]], *, timeout: Seconds | None = None
    ) -> list[Ticket[R]]:
        """Accept many jobs at once, each with its key: all of them, or none."""
        self._check_runs()
        given = list(pairs_of(jobs))
        calls = [self._keyed(key, job) for key, job in given]
        patience = self.enqueue_timeout if timeout is None else seconds("timeout", timeout)
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + patience
        while True:
            try:
                tickets = await self.app.submit_many(calls)
                break
            except QueueFull as full:
                if loop.time() >= ends_at or full.added > full.depth_max:
                    for call in calls:
                        key = call.new.key or ""
                        self._tell(events.Refused(key, 0, full.depth, full.depth_max))
                    raise
            await asyncio.sleep(min(FULL_SECONDS, ends_at - loop.time()))
            self._check_runs()
        for key, job in given:
            job.is_submitted = True
            self._tell(events.Accepted(key, 0))
        return tickets

    def submit_sync(self, key: str, job: Call[R], *, timeout: Seconds | None = None) -> Ticket[R]:
        """Accept a job from a thread without a loop."""
        return self.app.sync(self.submit(key, job, timeout=timeout))

    async def run(self, key: str, job: Call[R], *, timeout: Seconds | None = None) -> R:
        """Submit a job and wait for its result. Cancelled, it leaves the job as it is."""
        ticket = await self.submit(key, job, timeout=timeout)
        while True:
            try:
                return await ticket.result(timeout=ENDED_SECONDS)
            except ResultTimeout:
                self._check_not_ended()

    async def barrier(self, key: str) -> None:
        """Wait until every job that stands in a key's line now has ended.

        Raises ``EarlierFailure`` if one of them became a dead letter, or one before them since
        this executor started; each is told once. So it does if the key is halted.
        """
        self._check_runs()
        check_name("key", key, bounds.KEY_CHARS_MAX)
        await self.app.run(lambda store: self._barrier(store, key))

    # Beginning and ending

    async def start(self) -> None:
        """Run what is in the store, on this event loop. ``async with`` does it too."""
        if self._running is None and not self._is_stopped:
            self._since = await self.app.run(lambda store: store.now())
            self._running = asyncio.create_task(self._worker.run())
            self._running.add_done_callback(_say_why_ended)
            self._tell(events.Opened(1, list))  # how deep its queues are, the store knows

    async def stop(self, timeout: Seconds | None = None) -> None:
        """Take nothing more, and run all that may run now. What waits for a time stays.

        After ``timeout`` what runs is given back to the store, but for a ``def``, which cannot be
        cancelled: end the process soon, for others run its job again.
        """
        patience = None if timeout is None else seconds("timeout", timeout)
        is_first, self._is_stopped, running = not self._is_stopped, True, self._running
        if running is None:
            return
        self._worker.drain()
        if not await _has_ended(running, patience):
            self._worker.stop_now()
            await _has_ended(running, GIVE_UP_SECONDS)
        if is_first:
            self._tell(events.Stopped(list))
        if running.done():
            running.result()

    async def close(self) -> None:
        """Stop, and run all that may run now."""
        await self.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    # What its worker tells

    def began(self, job: LeasedJob) -> None:
        """Nothing: a job that begins is not told."""

    def failed(self, job: LeasedJob, error: Exception) -> None:
        """Keep what an attempt failed with until the store knows of it."""
        self._errors[job.id] = error
        if len(self._errors) > bounds.FAILED_KEYS_MAX:  # their leases were lost
            del self._errors[next(iter(self._errors))]

    def _hear(self, event: worker_events.WorkerEvent) -> None:
        """Tell of an attempt that failed, and report a job that became a dead letter."""
        match event:
            case worker_events.AttemptFailed():
                key, error = event.key or "", self._error_of(event, event.error)
                self._tell(events.Retried(key, 0, event.attempt, event.delay_seconds, error))
            case worker_events.Died():
                key, error = event.key or "", self._error_of(event, event.reason)
                handler = self._error_handler
                self._tell(events.Failed(key, 0, event.attempt, error, handler is not None))
                try:
                    if handler is not None:
                        handler(Failure(key, 0, event.attempt, error))
                except Exception as failed:
                    guarded(log_event, events.HandlerFailed(key, failed))
            case _:
                pass

    def _error_of(self, event: worker_events.Failure, said: str) -> Exception:
        """Return what a job failed with; of one in a process of its own, what is said of it."""
        error = self._errors.pop(event.job, None)
        return error or AttemptFailed(event.kind, event.job, event.attempt, said)

    def _tell(self, event: events.Event) -> None:
        for listener in self._listeners:
            try:
                listener(event)
            except Exception as error:
                guarded(log_listener_failure, listener, error)

    # Parts

    def _check_runs(self) -> None:
        """Refuse to accept what nobody here would run."""
        if self._is_stopped:
            raise ExecutorClosed("the executor was stopped, and takes no jobs.")
        if self._running is None:
            raise ExecutorClosed("the executor was not started: use `async with executor`.")
        self._check_not_ended()

    def _check_not_ended(self) -> None:
        """Refuse to wait for what nobody here runs any more."""
        running = self._running
        if running is not None and running.done():
            error = None if running.cancelled() else running.exception()
            said = "the executor's worker has ended" + ("" if error is None else f": {error}")
            raise ExecutorClosed(f"{whole(said)} What was accepted is in the store.") from error

    def _keyed(self, key: str, job: Any) -> Call[Any]:
        """Return a call with its key, if the worker would run it."""
        check_name("key", key, bounds.KEY_CHARS_MAX)
        if not isinstance(job, Call):
            made = f"{job.kind}.call(…)" if isinstance(job, Job) else "@app.job, function.call(…)"
            raise BadInput(
                f"an executor with a store takes calls of declared jobs, not {shown(job)}, which "
                f"would not survive the process: {made}."
            )
        new, worker = job.new, self._worker
        if new.kind not in worker.kinds or new.queue not in worker.queues:
            raise BadInput(
                f"nobody here would run job {new.kind!r} in queue {new.queue!r}: declare the job, "
                f"and one on that queue, before the executor is made."
            )
        if new.key not in (None, key):
            raise BadInput(f"the job has the key {new.key!r} already, and cannot have {key!r} too.")
        job.check_for(self.app)
        job.check_not_submitted()
        return job.keyed(key)

    async def _barrier(self, store: Store, key: str) -> None:
        asked_at, letters = await store.now(), []
        lines = [await _lane(store, queue, key) for queue in self._worker.queues]
        halted = [await self._passed(store, line) for line in lines if line is not None]
        for queue in self._worker.queues:
            letters += await _deaths(store, queue, key, since=self._since or asked_at)
        told = self._told.get(key, self._since or asked_at)
        letters.sort(key=lambda one: one.died_at)
        failed = [one for one in letters if one.job.enqueued_at <= asked_at and one.died_at > told]
        if failed:
            self._told[key] = failed[-1].died_at
            if len(self._told) > bounds.FAILED_KEYS_MAX:
                del self._told[next(iter(self._told))]
            raise EarlierFailure(key, len(failed), _said(failed[0]))
        for id in halted:
            if id is not None:
                raise EarlierFailure(key, 1, _said(await store.job(id)))

    async def _passed(self, store: Store, before: LaneView) -> UUID | None:
        """Wait until a lane's head has passed what stands in it; return what it is halted on."""
        pause, lane = LOOK_SECONDS_FIRST, before
        while lane.head <= before.last and lane.state is not LaneState.IDLE:
            if lane.state is LaneState.HALTED:
                return lane.halted_job
            self._check_not_ended()
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LOOK_SECONDS_MAX)
            found = await _lane(store, before.queue, before.key or "")
            if found is None or found.id != before.id:  # it was empty, and was pruned
                break
            lane = found
        return None


async def _lane(store: Store, queue: str, key: str) -> LaneView | None:
    return next(iter((await store.lanes(queue, key=key)).rows), None)


async def _deaths(store: Store, queue: str, key: str, *, since: datetime) -> list[DeadLetter]:
    """Return a key's dead letters that died since a time."""
    found: list[DeadLetter] = []
    cursor = None
    while True:
        page = await store.dead_letters(queue=queue, key=key, cursor=cursor)
        found += [one for one in page.rows if one.died_at >= since]
        cursor = page.cursor
        if cursor is None or page.rows[-1].died_at < since:  # the latest come first
            return found


def _said(dead: DeadLetter | JobView) -> str:
    """Return what a job failed with last."""
    return dead.errors[-1].error if dead.errors else dead.reason or ""


async def _has_ended(running: asyncio.Task[None], patience: float | None) -> bool:
    """Wait until a worker has ended, from whichever loop; say whether it did in time."""
    ends_at = inf if patience is None else monotonic() + patience
    while not running.done() and monotonic() < ends_at:  # noqa: ASYNC110
        await asyncio.sleep(STOP_LOOK_SECONDS)
    return running.done()


def _say_why_ended(running: asyncio.Task[None]) -> None:
    if not running.cancelled() and (error := running.exception()) is not None:
        guarded(log_executor_ended, error)

"""The executor without a store: jobs in this process, in order for each key, keys side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextvars import copy_context
from functools import lru_cache
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from inturn.executor.admission import Entry, Offer
from inturn.executor.job_call import NOWHERE, Async, Plain, call_of, pairs_of
from inturn.executor.job_ends import JobEnds
from inturn.executor.settings import (
    ErrorHandler,
    ExecutorSettings,
    Seconds,
    SettingOptions,
    check_error_handler,
    check_known,
    checked_listeners,
    seconds,
    shard_for,
)
from inturn.executor.slots import Slots, current_job
from inturn.executor.ticket import LocalTicket, LoopWakeup
from inturn.model import bounds, events
from inturn.model.admissible import check_name
from inturn.model.errors import (
    EarlierFailure,
    ExecutorClosed,
    InvalidName,
    JobCancelled,
    WaitsForItself,
)
from inturn.policy.retry import RetryPolicy

Value = TypeVar("Value")


class LocalExecutor:
    """Runs jobs in this process: those of one key one at a time and in order, keys in parallel.

    It lives on the event loop where it is entered (``async with``) or first submitted to. Jobs may
    be submitted from any thread. ``ExecutorSettings`` explains the settings.

    - ``permanent``: classes of errors that are not retried (``Reject`` never is);
    - ``error_handler``: called once with a ``Failure`` for each job that failed for good or was
      cancelled, on the thread where that happened;
    - ``listeners``: called with each event of ``inturn.model.events``.
    """

    def __init__(
        self,
        *,
        app: None = None,
        permanent: tuple[type[BaseException], ...] = (),
        error_handler: ErrorHandler | None = None,
        listeners: Sequence[events.Listener] = (),
        random: Random | None = None,
        **settings: Unpack[SettingOptions],
    ) -> None:
        check_known(settings, self)
        self.settings = ExecutorSettings(**settings)
        check_error_handler(error_handler)
        heard_by = checked_listeners(listeners)
        policy = RetryPolicy(
            attempts_max=self.settings.max_attempts,
            base_seconds=float(self.settings.base_backoff),
            cap_seconds=float(self.settings.max_interval),
            jitter=self.settings.jitter,
            permanent=permanent,
        )
        self._ends = JobEnds(self.settings, policy, random or Random(), heard_by, error_handler)
        self._lanes = self._ends.lanes
        self._lock = self._ends.lock
        self._shard_of = lru_cache(bounds.SHARD_CACHE_KEYS_MAX)(self._find_shard)
        self._entry = Entry(self._ends)
        self._timeout = float(self.settings.enqueue_timeout)
        self._is_stopped = False  # or was told to
        self._has_ended = False
        self._when_ended: list[LoopWakeup] = []

    # Submitting

    @overload
    async def submit(
        self, key: str, job: Async[Value], *, timeout: Seconds | None = None, detached: bool = True
    ) -> LocalTicket[Value]: ...
    @overload
    async def submit(
        self, key: str, job: Plain[Value], *, timeout: Seconds | None = None, detached: bool = True
    ) -> LocalTicket[Value]: ...
    async def submit(
        self, key: str, job: Any, *, timeout: Seconds | None = None, detached: bool = True
    ) -> LocalTicket[Any]:
        """Accept a job: it will run after the jobs of its key that were accepted before it.

        Waits for room up to ``timeout`` (or ``enqueue_timeout``); 0 tries once. Cancelled while it
        waits, it takes the job back if it has not begun, as its ticket would. Accepted, the job no
        longer depends on its caller; with ``detached=False`` it is cancelled if the task, or the
        job, that submitted it ends by being cancelled.
        """
        patience = self._timeout if timeout is None else seconds("timeout", timeout)
        ticket = self._offered(key, job)
        if not self._entry.enter(ticket):
            await self._entry.wait(Offer([ticket]), patience)
        if not detached:
            self._attach(ticket)
        return ticket

    async def submit_many(
        self, jobs: Iterable[tuple[str, Any]], *, timeout: Seconds | None = None
    ) -> list[LocalTicket[Any]]:
        """Accept many jobs at once, each with its key: all of them, or none."""
        patience = self._timeout if timeout is None else seconds("timeout", timeout)
        tickets = [self._offered(key, job) for key, job in pairs_of(jobs)]
        if tickets:
            await self._entry.wait(Offer(tickets), patience)
        return tickets

    @overload
    async def run(
        self, key: str, job: Async[Value], *, timeout: Seconds | None = None, detached: bool = False
    ) -> Value: ...
    @overload
    async def run(
        self, key: str, job: Plain[Value], *, timeout: Seconds | None = None, detached: bool = False
    ) -> Value: ...
    async def run(
        self, key: str, job: Any, *, timeout: Seconds | None = None, detached: bool = False
    ) -> Any:
        """Submit a job and wait for its value.

        Cancelling the call cancels the job as well, unless it is ``detached``.
        """
        self._ends.check_not_own("run", key)
        ticket: LocalTicket[Any] = await self.submit(key, job, timeout=timeout)
        try:
            return await ticket.result()
        except asyncio.CancelledError:
            if not detached:
                self._ends.cancel(ticket, "its caller was cancelled")
            raise

    @overload
    def submit_sync(
        self, key: str, job: Async[Value], *, timeout: Seconds | None = None
    ) -> LocalTicket[Value]: ...
    @overload
    def submit_sync(
        self, key: str, job: Plain[Value], *, timeout: Seconds | None = None
    ) -> LocalTicket[Value]: ...
    def submit_sync(
        self, key: str, job: Any, *, timeout: Seconds | None = None
    ) -> LocalTicket[Any]:
        """Accept a job from any thread. On the executor's own loop it never waits for room."""
        patience = self._timeout if timeout is None else seconds("timeout", timeout)
        ticket = self._offered(key, job)
        if not self._entry.enter(ticket):
            self._entry.wait_sync(Offer([ticket]), patience)
        return ticket

    async def barrier(self, key: str) -> None:
        """Wait until every job of a key that was accepted before has ended.

        Raises ``EarlierFailure`` if one of them failed for good since the last barrier.
        """
        self._ends.check_not_own("barrier", key)
        barrier = LocalTicket(key, self.shard_for(key), None, NOWHERE, None, self._ends)
        wakeup = LoopWakeup()
        barrier.signals = [wakeup.set]
        with self._lock:
            halted = self._ends.halted.get(key)
            if halted is not None:
                count, _ = self._lanes.failed.get(key, (1, ""))
                raise EarlierFailure(key, count, halted)
            if not self._lanes.put_barrier(barrier):
                if (note := self._lanes.failed.pop(key, None)) is not None:
                    raise EarlierFailure(key, *note)
                return
        try:
            await wakeup.wait()
        except asyncio.CancelledError:
            with self._lock:
                self._lanes.forget_barrier(barrier)
            raise
        if barrier.error is not None:
            raise barrier.error

    # Looking

    @property
    def free_slots(self) -> int:
        """How many more keys could run at this moment."""
        return max(0, self._lanes.free)

    @property
    def keys_busy(self) -> int:
        """How many keys have jobs that have not ended."""
        return len(self._lanes.by_key)

    def depths(self) -> list[int]:
        """Return how many jobs wait in each shard, between attempts too; none that runs."""
        return list(self._ends.admission.depths)

    def shard_for(self, key: str) -> int:
        """Return the shard that a key's jobs are counted in."""
        try:
            return self._shard_of(key)
        except TypeError as error:  # it has no hash
            raise _no_text(key) from error

    def current(self) -> LocalTicket | None:
        """Return the ticket of the job that calls this, or None outside a job."""
        return self._ends.current()

    def halted(self) -> dict[str, str]:
        """Return the keys that are halted, with the error of the job each is halted on."""
        with self._lock:
            return dict(self._ends.halted)

    def resume(self, key: str) -> bool:
        """Let a halted key take jobs again; say whether it was halted."""
        with self._lock:
            self._lanes.failed.pop(key, None)
            return self._ends.halted.pop(key, None) is not None

    # Beginning and ending

    def start(self) -> None:
        """Take jobs from now on, on the event loop that runs here. ``async with`` does it too."""
        loop, ends = asyncio.get_running_loop(), self._ends
        with self._lock:
            if self._entry.is_open:
                return
            if ends.loop is not None or self._is_stopped:
                raise self._entry.closed()
            ends.loop = loop
            self._lanes.slots = Slots(self.settings.slots, self._lock)
            self._drained = LoopWakeup()
            ends.keeper = loop.create_task(self._keep(), name="inturn-keeper")
            self._entry.is_open = True
        ends.tell(events.Opened(self.settings.shards, self.depths))

    async def stop(self, timeout: Seconds | None = None) -> None:
        """Take no more jobs, and wait until everything accepted has ended, with its retries.

        After ``timeout`` what is left is cancelled and reported. May be called again, and by many.
        """
        if (current := self.current()) is not None:
            raise WaitsForItself("stop", current.key)
        patience = None if timeout is None else seconds("timeout", timeout)
        self._is_stopped = True
        if self._ends.keeper is None:
            return
        self._close()
        if not await self._wait_for_end(patience):
            self._ends.abort(f"the executor did not drain within {patience:g} s")
            await self._wait_for_end(None)

    async def close(self) -> None:
        """Stop, and wait until everything accepted has ended."""
        await self.stop()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def _offered(self, key: str, job: Any) -> LocalTicket[Any]:
        """Return a ticket for a job that is to be accepted; start, if nobody has yet."""
        call, place = call_of(job)
        try:
            shard = self._shard_of(key)
        except TypeError as error:
            raise _no_text(key) from error
        if not self._entry.is_open:
            self._start_or_refuse()
        # An empty context is made when the job runs: one object less that waits in line with it.
        return LocalTicket(key, shard, call, place, copy_context() or None, self._ends)

    def _start_or_refuse(self) -> None:
        """Start on the loop that runs here, if nobody has yet."""
        if self._is_stopped:
            raise self._entry.closed()
        try:
            self.start()
        except RuntimeError as error:  # no loop runs here
            raise ExecutorClosed(
                "the executor has not been started, so there is no loop to run jobs on. Enter it "
                "with `async with`, or call start(), where the event loop runs."
            ) from error

    def _close(self) -> None:
        """Take no more jobs; have the keeper know when the others have ended."""
        self._entry.close()
        with self._lock:
            self._lanes.when_drained = self._drained.set
            self._lanes.look_for_end()

    async def _keep(self) -> None:
        """Wait as long as the executor lives, then put everything away.

        No job runs in this task: when it is cancelled, the loop is being taken down without a stop,
        and what was accepted is reported instead of being lost without a word.
        """
        slots = self._lanes.slots
        try:
            await self._drained.wait()
            await slots.end()
            slots.join()
        except asyncio.CancelledError:
            self._is_stopped = True
            self._close()
            self._ends.abort("its event loop ended before the executor was stopped")
            await slots.end()
            raise
        finally:
            with self._lock:
                self._has_ended = True
                waiting, self._when_ended = self._when_ended, []
                has_left = bool(self._lanes.by_key or self._lanes.ending)
            for wakeup in waiting:
                wakeup.set()
            stopped = events.Stopped(self.depths)
            if has_left:  # a def runs on: the log is not told that all has ended
                self._ends.tell_each(stopped)
            else:
                self._ends.tell(stopped)

    async def _wait_for_end(self, patience: float | None) -> bool:
        """Wait until all has ended and is put away; say whether it is in time."""
        wakeup = LoopWakeup()
        with self._lock:
            if self._has_ended:
                return True
            self._when_ended.append(wakeup)
        await wakeup.wait(patience)
        return self._has_ended

    def _attach(self, ticket: LocalTicket[Any]) -> None:
        """Cancel a job when the task or the job that runs here ends by being cancelled."""
        left, owner = [ticket], current_job()
        if not self._ends.on_end(ticket, left.clear):  # what has ended is not kept
            return

        def follow(was_cancelled: bool, caller: str) -> None:
            for one in left[:] if was_cancelled else ():
                self._ends.cancel(one, f"the {caller} that submitted it was cancelled")

        if isinstance(owner, LocalTicket):  # its task is its slot's, which goes on
            owner.ends.on_end(owner, lambda: follow(isinstance(owner.error, JobCancelled), "job"))
        else:
            task = asyncio.current_task()
            assert task is not None
            task.add_done_callback(lambda task: follow(task.cancelled(), "task"))

    def _find_shard(self, key: str) -> int:
        check_name("key", key, bounds.KEY_CHARS_MAX)
        return shard_for(key, self.settings.shards)


def _no_text(key: object) -> InvalidName:
    return InvalidName(f"the key must be text, not {type(key).__name__}.")

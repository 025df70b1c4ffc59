"""The executor without a store: jobs in this process, in order for each key, keys side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextvars import copy_context
from functools import lru_cache
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from inturn.executor.attachment import Attachments
from inturn.executor.call import NOWHERE, Async, Plain, call_of, pairs_of
from inturn.executor.completions import Completions
from inturn.executor.door import Door
from inturn.executor.home import Home, LoopSignal
from inturn.executor.keeper import Keeper
from inturn.executor.loop_slots import LoopSlots
from inturn.executor.report import ErrorHandler, check_error_handler, checked_listeners
from inturn.executor.room import Offer
from inturn.executor.settings import ExecutorSettings, Seconds, seconds
from inturn.executor.shard import shard_for
from inturn.executor.thread_slots import ThreadSlots
from inturn.executor.ticket import LocalTicket
from inturn.executor.turns import Turns
from inturn.model import bounds, events
from inturn.model.admissible import check_name, shown
from inturn.model.errors import BadInput, EarlierFailure, InvalidName, WaitsForItself
from inturn.model.lane import OnDead
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
        shards: int = 4,
        slots: int = 0,
        queue_size: int = 128,
        depth_max: int = 0,
        enqueue_timeout: Seconds = 0.1,
        max_attempts: int = 8,
        base_backoff: Seconds = 0.1,
        max_interval: Seconds = 20.0,
        jitter: float = 1.0,
        on_dead: OnDead | str = OnDead.SKIP,
        permanent: tuple[type[BaseException], ...] = (),
        error_handler: ErrorHandler | None = None,
        listeners: Sequence[events.Listener] = (),
        random: Random | None = None,
    ) -> None:
        self.settings = ExecutorSettings(
            shards=shards,
            slots=slots,
            queue_size=queue_size,
            depth_max=depth_max,
            enqueue_timeout=enqueue_timeout,
            max_attempts=max_attempts,
            base_backoff=base_backoff,
            max_interval=max_interval,
            jitter=jitter,
            on_dead=on_dead,
        )
        check_error_handler(error_handler)
        heard_by = checked_listeners(listeners)
        policy = RetryPolicy(
            attempts_max=max_attempts,
            base_seconds=float(self.settings.base_backoff),
            cap_seconds=float(self.settings.max_interval),
            jitter=jitter,
            permanent=permanent,
        )
        chance = Random() if random is None else _checked_random(random)
        self._turns = Turns(self.settings, policy, chance, heard_by, error_handler)
        self._lanes = self._turns.lanes
        self._lock = self._turns.lock
        self._shard_of = lru_cache(bounds.SHARD_CACHE_KEYS_MAX)(self._find_shard)
        self._keeper: Keeper | None = None
        self._attachments = Attachments(self._turns)
        timeout = float(self.settings.enqueue_timeout)
        self._door = Door(self._turns, timeout, self.start)

    # Submitting

    @overload
    async def submit(
        self,
        key: str,
        job: Async[Value],
        *,
        timeout: Seconds | None = None,
        detached: bool = True,
    ) -> LocalTicket[Value]: ...
    @overload
    async def submit(
        self,
        key: str,
        job: Plain[Value],
        *,
        timeout: Seconds | None = None,
        detached: bool = True,
    ) -> LocalTicket[Value]: ...
    async def submit(
        self,
        key: str,
        job: Any,
        *,
        timeout: Seconds | None = None,
        detached: bool = True,
    ) -> LocalTicket[Any]:
        """Accept a job: it will run after the jobs of its key that were accepted before it.

        Waits for room up to ``timeout`` (or ``enqueue_timeout``); 0 tries once. Cancelled while it
        waits, it takes the job back if it has not begun, as its ticket would. Accepted, the job no
        longer depends on its caller; with ``detached=False`` it is cancelled if the task, or the
        job, that submitted it ends by being cancelled.
        """
        call, place = call_of(job)
        patience = None if timeout is None else seconds("timeout", timeout)
        try:
            shard = self._shard_of(key)
        except TypeError as error:  # it has no hash
            raise self._no_key(key) from error
        # An empty context is made when the job runs: one object less that waits in line with it.
        ticket = LocalTicket(key, shard, call, place, copy_context() or None, self._turns)
        if not self._door.enter(ticket):
            await self._door.wait(Offer([ticket]), patience)
        if not detached:
            self._attachments.attach(ticket)
        return ticket

    async def submit_many(
        self,
        jobs: Iterable[tuple[str, Any]],
        *,
        timeout: Seconds | None = None,
        completions: Completions | None = None,
    ) -> list[LocalTicket[Any]]:
        """Accept many jobs at once, each with its key: all of them, or none."""
        patience = None if timeout is None else seconds("timeout", timeout)
        context = copy_context()
        tickets: list[LocalTicket[Any]] = []
        for key, job in pairs_of(jobs):
            call, place = call_of(job)
            shard, own = self.shard_for(key), context.copy() if context else None
            tickets.append(LocalTicket(key, shard, call, place, own, self._turns, completions))
        if tickets:
            offer = Offer(tickets)
            if not self._door.enter_all(offer):
                await self._door.wait(offer, patience)
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

        Who is cancelled while waiting takes the job along, unless it is ``detached``.
        """
        self._turns.check_not_own("run", key)
        ticket: LocalTicket[Any] = await self.submit(key, job, timeout=timeout)
        try:
            return await ticket.result()
        except asyncio.CancelledError:
            if not detached:
                self._turns.cancel(ticket, "who waited for it was cancelled")
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
        call, place = call_of(job)
        patience = None if timeout is None else seconds("timeout", timeout)
        shard = self.shard_for(key)
        ticket = LocalTicket(key, shard, call, place, copy_context() or None, self._turns)
        if self._door.enter(ticket):
            return ticket
        self._door.wait_sync(Offer([ticket]), patience)
        return ticket

    async def barrier(self, key: str) -> None:
        """Wait until every job of a key that was accepted before has ended.

        Raises ``EarlierFailure`` if one of them failed for good since the last barrier.
        """
        turns = self._turns
        turns.check_not_own("barrier", key)
        barrier = LocalTicket(key, self.shard_for(key), None, NOWHERE, None, turns)
        signal = LoopSignal(turns.home)
        barrier.signals = [signal.fire]
        with self._lock:
            if key in turns.halted:
                count, _ = self._lanes.failed.get(key, (1, ""))
                raise EarlierFailure(key, count, turns.halted[key])
            if not self._lanes.put_barrier(barrier):
                note = self._lanes.failed.pop(key, None)
                if note is not None:
                    raise EarlierFailure(key, *note)
                return
        try:
            await signal.wait()
        except asyncio.CancelledError:
            with self._lock:
                self._lanes.void_barrier(barrier)
            raise
        if barrier.error is not None:
            raise barrier.error

    # Looking

    @property
    def free_slots(self) -> int:
        """How many more keys could run at this moment."""
        return self._lanes.slots - self._lanes.running

    @property
    def keys_busy(self) -> int:
        """How many keys have jobs that have not ended."""
        return len(self._lanes.lanes)

    def depths(self) -> list[int]:
        """Return how many jobs wait in each shard, between attempts too; none that runs."""
        return self._turns.depths()

    def shard_for(self, key: str) -> int:
        """Return the shard that a key's jobs are counted in."""
        try:
            return self._shard_of(key)
        except TypeError as error:  # it has no hash
            raise self._no_key(key) from error

    def current(self) -> LocalTicket | None:
        """Return the ticket of the job that calls this, or None outside a job."""
        return self._turns.current()

    def halted(self) -> dict[str, str]:
        """Return the keys that are halted, with the error of the job each is halted on."""
        with self._lock:
            return dict(self._turns.halted)

    def resume(self, key: str) -> bool:
        """Let a halted key take jobs again; say whether it was halted."""
        with self._lock:
            self._lanes.failed.pop(key, None)
            return self._turns.halted.pop(key, None) is not None

    # Beginning and ending

    def start(self) -> None:
        """Take jobs from now on, on the event loop that runs here. ``async with`` does it too."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._door.is_open:
                return
            if self._turns.home is not None or self._door.is_stopped:
                raise self._door.closed()
            home = self._turns.home = Home(loop)
            self._on_loop = LoopSlots(self._turns, home)
            on_threads = ThreadSlots(self._turns, self.settings.slots)
            self._turns.on_loop, self._turns.on_threads = self._on_loop, on_threads
            self._keeper = Keeper(self._turns, self._on_loop, on_threads, self._door)
            self._turns.loop_ends = self._keeper.is_cancelled
            self._door.is_open = True
        self._turns.tell(events.Opened(self.settings.shards, self._turns.depths))

    async def stop(self, timeout: Seconds | None = None) -> None:
        """Take no more jobs, and wait until everything accepted has ended, with its retries.

        After ``timeout`` what is left is cancelled and reported. May be called again, and by many.
        """
        if (current := self.current()) is not None:
            raise WaitsForItself("stop", current.key)
        patience = None if timeout is None else seconds("timeout", timeout)
        keeper = self._keeper
        if keeper is None:
            self._door.is_stopped = True
            return
        self._door.close(keeper.end)
        signal = LoopSignal(self._turns.home)
        if keeper.on_stopped(signal.fire):
            await signal.wait(patience)
            if not keeper.stopped:
                self._turns.abort(f"the executor did not drain within {patience:g} s")
                signal = LoopSignal(self._turns.home)
                if keeper.on_stopped(signal.fire):
                    await signal.wait()

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

    def _find_shard(self, key: str) -> int:
        check_name("key", key, bounds.KEY_CHARS_MAX)
        return shard_for(key, self.settings.shards)

    def _no_key(self, key: object) -> InvalidName:
        return InvalidName(f"the key must be text, not {type(key).__name__}.")


def _checked_random(random: Random) -> Random:
    """Return what the jitter is drawn by, or refuse it before a job has failed."""
    if not callable(getattr(random, "random", None)):
        raise BadInput(f"random must be a random.Random, not {shown(random)}.")
    return random

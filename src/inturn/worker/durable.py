"""The executor with a store behind it: what it accepts survives the process, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn, Self, TypeVar

from inturn.executor.call import pairs_of
from inturn.executor.completions import Completions
from inturn.executor.executor import Executor
from inturn.executor.report import ErrorHandler, check_error_handler, checked_listeners
from inturn.executor.settings import ExecutorSettings, Seconds, seconds
from inturn.log import guarded, log_executor_ended
from inturn.model import bounds, events
from inturn.model.admissible import check_name
from inturn.model.errors import (
    BadInput,
    EarlierFailure,
    ExecutorClosed,
    InturnError,
    InvalidSetting,
    QueueFull,
    ShardFull,
    WaitsForItself,
)
from inturn.model.job import LeasedJob
from inturn.model.lane import QueueStatus
from inturn.model.spelling import whole
from inturn.queue.app import App
from inturn.queue.home import crossed, left_to
from inturn.queue.job import Call
from inturn.queue.ticket import Ticket
from inturn.store.protocol import Store
from inturn.worker.awaited import Awaited
from inturn.worker.declared import checked_app
from inturn.worker.ends import Ends
from inturn.worker.intake import Intake
from inturn.worker.own_ticket import OwnTicket, in_line
from inturn.worker.repertoire import Repertoire
from inturn.worker.stopping import Stopping
from inturn.worker.store_room import LOOK_SECONDS, StoreRoom
from inturn.worker.submission import Submission
from inturn.worker.unheard import Unheard
from inturn.worker.watcher import watched_app
from inturn.worker.worker import Worker

R = TypeVar("R")

LEFT_SECONDS_MAX = 5.0  # who was cancelled on another loop waits so long for what that entails

_OF_THE_JOB = "each job has its own: @app.job(attempts=…, retry=RetryPolicy(…))"
_OF_THE_QUEUE = "it is the queue's in the store: store.configure(queue, QueueSettings(…))"
_REFUSED = {
    "shards": "a store knows queues and keys; queue_size bounds what waits in each queue",
    "depth_max": _OF_THE_QUEUE,
    "on_dead": _OF_THE_QUEUE,
    "max_attempts": _OF_THE_JOB,
    "base_backoff": _OF_THE_JOB,
    "max_interval": _OF_THE_JOB,
    "jitter": _OF_THE_JOB,
    "permanent": _OF_THE_JOB,
    "random": _OF_THE_JOB,
}


class DurableExecutor(Executor):
    """Runs jobs of an app: those of one key one at a time and in order, keys in parallel.

    ``submit`` returns when the job is in the app's store. What has not ended when the process does,
    however it does, runs after the next start, in its order. It lives on the app's event loop and
    runs whatever waits in the queues of the app's jobs, whoever submitted it.

    - ``slots``: how many keys run at once;
    - ``queue_size``: how many jobs may wait in each queue of the store;
    - ``enqueue_timeout``: how long ``submit`` waits for room; 0 tries once;
    - ``error_handler``, ``listeners``: as without a store, for jobs that run here;
    - ``lease_seconds``, ``sweep_seconds``: as of a ``Worker``.
    """

    def __init__(
        self,
        *,
        app: App,
        slots: int = 4,
        queue_size: int = 512,
        enqueue_timeout: Seconds = 0.1,
        error_handler: ErrorHandler | None = None,
        listeners: Sequence[events.Listener] = (),
        lease_seconds: float = bounds.LEASE_SECONDS_DEFAULT,
        sweep_seconds: float = 10.0,
        **refused: Any,
    ) -> None:
        for name in refused:
            if name not in _REFUSED:
                raise TypeError(f"an executor has no setting {name!r}.")
            raise InvalidSetting(
                f"{name} means nothing to an executor with a store: {_REFUSED[name]}."
            )
        self.app = checked_app(app)
        check_error_handler(error_handler)
        self.settings = ExecutorSettings(
            shards=1, slots=slots, queue_size=queue_size, enqueue_timeout=enqueue_timeout
        )
        self._ends = Ends(checked_listeners(listeners), error_handler)
        self._repertoire = Repertoire(app, self._ends)
        self._awaited = Awaited(self._ends, self._check_runs, self._repertoire.takes)
        self._unheard = Unheard(self._ends)
        self._intake = Intake(app, self._ends)
        self._stopping = Stopping(app, self._awaited)
        self._lease_seconds, self._sweep_seconds = lease_seconds, sweep_seconds
        self._room: StoreRoom | None = None
        self._worker: Worker | None = None
        self._running: asyncio.Future[None] | None = None
        self._is_stopped = False  # it takes nothing more
        self._has_ended = False  # nor does anything run

    # Submitting
    #
    # ``Executor(app=…)`` is typed as this class only because it is a subclass, and its verbs take
    # calls of declared jobs and return the store's tickets: hence five overrides that are none.

    async def submit(  # type: ignore[override]
        self, key: str, job: Call[R], *, timeout: Seconds | None = None, detached: bool = True
    ) -> Ticket[R]:
        """Accept a job, ``send.call(to=…)``: it is in the store, and runs after those before it.

        Waits for room up to ``timeout`` (or ``enqueue_timeout``); 0 tries once. Cancelled before it
        returns, it takes the job back if it has not begun; cancelled again, it does not wait for
        that.
        """
        if not detached:
            raise BadInput("a job in a store does not depend on who submitted it: leave detached.")
        [ticket] = await self.submit_many([(key, job)], timeout=timeout)
        return ticket

    async def submit_many(  # type: ignore[override]
        self,
        jobs: Iterable[tuple[str, Call[R]]],
        *,
        timeout: Seconds | None = None,
        completions: Completions | None = None,
    ) -> list[Ticket[R]]:
        """Accept many jobs at once, each with its key: all of them, or none."""
        if completions is not None:
            raise BadInput("completions are of jobs without a store: await the tickets' results.")
        calls = [self._repertoire.keyed(key, job) for key, job in pairs_of(jobs)]
        given = self.settings.enqueue_timeout if timeout is None else timeout
        patience = seconds("timeout", given)
        self._check_open()
        if not calls:
            return []
        submission = Submission(calls)
        try:
            return await self.app.run(lambda _: self._submit(submission, patience))
        except asyncio.CancelledError:
            if (home := submission.give_up()) is not None:
                work = self._intake.give_up(submission)
                await left_to(home, work, seconds_max=LEFT_SECONDS_MAX)
                if not home.is_running():
                    submission.end()  # for who would say so is gone
            raise
        except BaseException:
            submission.end()  # if it has not begun, or its loop has ended
            raise

    async def run(  # type: ignore[override]
        self, key: str, job: Call[R], *, timeout: Seconds | None = None, detached: bool = False
    ) -> R:
        """Submit a job and wait for its result.

        Who is cancelled while waiting takes the job along if it has not begun, unless it is
        ``detached``. Refused to a job of the same key in the same queue, which would wait for
        itself. Raises ``ExecutorClosed`` if the executor ends before the job does.
        """
        queue = self._repertoire.keyed(key, job).new.queue
        if in_line(self.current(), queue, key):
            raise WaitsForItself("run", key)
        ticket = await self.submit(key, job, timeout=timeout)
        try:
            return await ticket.result()
        except asyncio.CancelledError:
            if not detached:
                by = "who waited for it and was cancelled"
                await self._leave_to_home(self._intake.withdraw(ticket, by=by))
            raise

    def submit_sync(  # type: ignore[override]
        self, key: str, job: Call[R], *, timeout: Seconds | None = None
    ) -> Ticket[R]:
        """Accept a job from a thread without a loop."""
        return self.app.sync(self.submit(key, job, timeout=timeout))

    async def barrier(self, key: str) -> None:
        """Wait until every job that stands in a key's line now has ended.

        Raises ``EarlierFailure`` if one of them became a dead letter, or one that ran here since
        the last barrier; or if the key is halted on one. Each failure is told once. While only
        others can lead the line on, it waits, and the log says for what; ``asyncio.timeout`` ends
        it.
        """
        check_name("key", key, bounds.KEY_CHARS_MAX)
        if (current := self.current()) is not None and current.key == key:
            raise WaitsForItself("barrier", key)
        told: list[EarlierFailure] = []
        try:
            await self.app.run(lambda store: self._barrier(store, key, told))
        except asyncio.CancelledError:
            self._leave_untold(told)
            raise

    # Looking

    @property
    def free_slots(self) -> int:
        """How many more keys could run at this moment."""
        return self.settings.slots - (0 if self._worker is None else self._worker.running)

    @property
    def keys_busy(self) -> int:
        """How many keys run or wait for a slot here."""
        return 0 if self._worker is None else self._worker.keys_busy

    def depths(self) -> list[int]:
        """Return how many jobs waited in the store when it was last asked, each second or so."""
        return [0 if self._room is None else self._room.depth]

    def shard_for(self, key: str) -> int:
        """Return 0: a store has no shards."""
        check_name("key", key, bounds.KEY_CHARS_MAX)
        return 0

    def current(self) -> LeasedJob | None:  # type: ignore[override]
        """Return the job that calls this, or None outside a job."""
        return self._ends.current()

    def halted(self) -> NoReturn:
        """Refuse: what is halted is in the store, and outlives this executor."""
        raise BadInput("halted lanes are in the store: look with `inturn lanes list QUEUE`.")

    def resume(self, key: str) -> NoReturn:
        """Refuse: a person decides about the job that a lane is halted on."""
        raise BadInput(
            f"a halted lane is led on in the store: `inturn lanes retry|skip|drop QUEUE {key}`."
        )

    # Beginning and ending

    def start(self) -> None:
        """Run what is in the store, on the event loop that runs here."""
        if self._running is not None:
            return
        self._check_open()
        view = watched_app(self.app, self._ends)
        worker = self._repertoire.worker = self._worker = Worker(
            view,
            concurrency=self.settings.slots,
            lease_seconds=self._lease_seconds,
            sweep_seconds=self._sweep_seconds,
        )
        room = StoreRoom(self._depths, self.settings.queue_size, self._check_open)
        self._room = room
        self._running = asyncio.ensure_future(worker.run())
        self._running.add_done_callback(_say_why_ended)
        looking = asyncio.ensure_future(self._look_on(room))
        self._running.add_done_callback(lambda _: looking.cancel())
        hearing = asyncio.ensure_future(self._awaited.look_on(self.app.lend))
        self._running.add_done_callback(lambda _: hearing.cancel())
        self._ends.tell(events.Opened(1, self.depths))

    async def stop(self, timeout: Seconds | None = None) -> None:
        """Take no more jobs, and wait until everything accepted here has ended, with its retries.

        What waits for a person, a time or a gate is left, and so is what stands behind a job that
        no live worker takes. After ``timeout``, and a second at most for what it has to tell the
        store, it returns: what has not ended stays in the store, and runs after the next start. An
        ``async def`` that runs is cancelled and given back, its attempt uncounted. A ``def`` cannot
        be: it goes on, and nobody else has its job as long as it does.
        """
        if (current := self.current()) is not None:
            raise WaitsForItself("stop", current.key or "")
        patience = None if timeout is None else seconds("timeout", timeout)
        is_first, self._is_stopped = not self._is_stopped, True
        if self._running is None or self._worker is None:
            return
        if is_first:
            self._ends.tell(events.Stopping(len(self._ends.awaited), self.keys_busy))
        if self._has_ended:  # though a handler may run that an earlier stop gave up on
            return
        await self._at_home(self._stopping.stop(self._worker, self._running, patience))
        has_ended, self._has_ended = self._has_ended, True
        if not has_ended:
            await self._at_home(self._stopping.say_left())
            self._ends.tell(events.Stopped(self.depths))

    async def close(self) -> None:
        """Stop, and wait until everything accepted has ended."""
        await self.stop()

    async def __aenter__(self) -> Self:
        await self.app.lend()  # what is wrong with the store is said here
        self.start()
        return self

    # Submitting, on the app's loop

    async def _submit(self, submission: Submission, patience: float) -> list[Ticket[Any]]:
        with submission.begun():
            tickets = await self._let_in(submission, patience)
        return [
            OwnTicket(self.app, ticket, call, self.current, self._closed)
            for ticket, call in zip(tickets, submission.calls, strict=True)
        ]

    async def _let_in(self, submission: Submission, patience: float) -> list[Ticket[Any]]:
        """Wait until there is room, and accept."""
        self.start()
        self._repertoire.learn()
        self._check_runs()
        assert self._room is not None
        jobs = submission.jobs
        await self._look_for_unheard(len(jobs))
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + patience
        while True:
            try:
                await self._room.enter(jobs, patience, ends_at=ends_at)
            except ShardFull as full:
                for job in jobs:
                    self._ends.tell(events.Refused(job.key or "", 0, full.length, full.capacity))
                raise
            try:
                return await self._intake.accept(submission, self._room)
            except QueueFull:  # by a bound of the queue's own
                if loop.time() + LOOK_SECONDS >= ends_at:
                    raise
                await asyncio.sleep(LOOK_SECONDS)

    async def _look_for_unheard(self, jobs: int) -> None:
        """Forget some of what ended elsewhere, before more is remembered."""
        assert self._worker is not None
        room = 2 * self.settings.queue_size * len(self._worker.queues)
        if self._unheard.is_due(jobs, room=room):
            await self.app.run(lambda store: self._unheard.look(store, jobs))

    async def _depths(self) -> dict[str, int]:
        return await self.app.run(_depths_in)

    async def _look_on(self, room: StoreRoom) -> None:
        """Keep the depths fresh, also while nobody submits."""
        with suppress(InturnError):  # there is no store: the worker ends with why
            store = await self.app.lend()  # once: not to open again what someone closes
            await room.look_on(lambda: self._look(store))

    async def _look(self, store: Store) -> dict[str, int]:
        self._repertoire.learn()  # also what others submit of it is to run
        return await _depths_in(store)

    def _check_open(self) -> None:
        if self._is_stopped:
            raise ExecutorClosed(
                "the executor was stopped and takes no more jobs. Make a new one, or stop it later."
            )

    def _check_runs(self) -> None:
        """Refuse to go on if the worker has ended, with why it did."""
        if (closed := self._closed()) is not None:
            raise closed

    def _closed(self) -> ExecutorClosed | None:
        """Return why nothing runs any more, if the worker has ended."""
        running = self._running
        if running is None or not running.done():
            return None
        error = None if running.cancelled() else running.exception()
        said = whole("the executor's worker has ended" + ("" if error is None else f": {error}"))
        closed = ExecutorClosed(f"{said} What was accepted is in the store. Make a new executor.")
        closed.__cause__ = error
        return closed

    # Waiting, on the app's loop

    async def _barrier(self, store: Store, key: str, told: list[EarlierFailure]) -> None:
        self.start()
        self._repertoire.learn()
        try:
            await self._awaited.line(store, self._repertoire.queues(), key)
        except EarlierFailure as failure:
            told.append(failure)
            raise

    def _leave_untold(self, told: list[EarlierFailure]) -> None:
        """Leave to the next barrier what one told to a loop where it was cancelled meanwhile."""
        if self._running is not None:
            with suppress(RuntimeError):  # the worker's loop is closed: there is no next
                # After the barrier there has been cancelled, or else has said what it tells.
                home = self._running.get_loop()
                home.call_soon_threadsafe(self._ends.failures.leave, told)

    async def _at_home(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the loop of the worker, whether or not there is a store to ask."""
        assert self._running is not None
        home = self._running.get_loop()
        if home is asyncio.get_running_loop():
            await work
        else:
            await crossed(home, work)

    async def _leave_to_home(self, work: Coroutine[Any, Any, None]) -> None:
        """Run on the loop of the worker what this loop, where one was cancelled, may not end."""
        assert self._running is not None
        home = self._running.get_loop()
        if home is asyncio.get_running_loop() or not home.is_running():
            await work
        else:
            await left_to(home, work, seconds_max=LEFT_SECONDS_MAX)


def _say_why_ended(running: asyncio.Future[None]) -> None:
    if not running.cancelled() and (error := running.exception()) is not None:
        guarded(log_executor_ended, error)


async def _depths_in(store: Store) -> dict[str, int]:
    return {one.name: _depth(one) for one in await store.queues()}


def _depth(queue: QueueStatus) -> int:
    return queue.waiting + queue.scheduled + queue.retrying + queue.blocked

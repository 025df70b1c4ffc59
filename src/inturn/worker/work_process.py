"""One worker in this process, from its start to its end."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any, NoReturn

import inturn
from inturn.log import guarded, log_counts, log_raised_on_loop
from inturn.model.errors import HookFailed, InturnError, StoreError
from inturn.model.worker_events import (
    Counts,
    LeftBehind,
    Listener,
    Started,
    Stopped,
    Stopping,
    StoppingNow,
)
from inturn.store.address import without_password
from inturn.worker.settings import WorkSettings
from inturn.worker.stop import STOP_NOW_SECONDS
from inturn.worker.stop_signals import StopSignals

END_SECONDS_MAX = 4 * STOP_NOW_SECONDS  # from being told to stop at once until the process is gone
LEFT_SECONDS_MAX = 3.0  # for what handlers left to end, when nothing else is waited for
FLUSH_SECONDS_MAX = 1.0
COUNT_SECONDS = 5.0
COLLECT_EVERY = 10_000  # objects; by Python's own 700, up to 3.12, some eighty jobs collect
NAMES_MAX = 8
FAILED = 1
STOPPED_AT_ONCE = 1


class WorkProcess:
    """Runs a worker until it is told to stop; then the process ends, whatever handlers left in it.

    The first signal lets what runs finish, the second gives it back, the third waits for nothing.
    A process of ``--processes`` does the first on SIGTERM and the second on SIGQUIT only: a
    supervisor may send it what its parent passes on as well.
    """

    def __init__(
        self, settings: WorkSettings, listener: Listener, *, is_member: bool = False
    ) -> None:
        self._found, self.worker = settings.worker(listener)
        self.worker.record.tells_done = settings.verbose
        self.worker.record.where = settings.where
        self._settings, self._is_member = settings, is_member
        self.started: Started | None = None  # when it has begun to work
        self._began_at = monotonic()
        self._code = FAILED
        self._hurried_code = 0
        self._tasks: set[asyncio.Task[Any]] = set()  # that handlers left
        self._signals = StopSignals(*[signal.SIGQUIT] * is_member)

    def run(self) -> None:
        """Work until told to stop, on a loop of its own."""
        loop = asyncio.new_event_loop()
        with self._signals:
            threading.Thread(target=self._obey, name="inturn-signals", daemon=True).start()
            try:
                _run_until_done(loop, self._work())
                self._code = 0
            finally:
                self._tasks = asyncio.all_tasks(loop)
                threading.Thread(target=self._end_if_kept, name="inturn-end", daemon=True).start()
                _run_until_done(loop, self._cancel_tasks())
                loop.close()  # waits for no thread

    def leave(self, code: int) -> None:
        """Let the process end with this code: as Python does, or after a moment without that."""
        self._code = code
        if any(not task.done() for task in self._tasks):
            self._end_with_left()

    # What is done when

    async def _work(self) -> None:
        failure: HookFailed | None = None
        worker, settings = self.worker, self._settings
        await worker.app.open()
        unknown = await self._unknown_queues()
        if settings.drain:
            worker.drain()
        self._began_at = monotonic()
        log = log_now_and_then(settings, lambda: worker.record.counts, is_member=self._is_member)
        counting = asyncio.create_task(log)
        try:
            async with worker.begun():
                self._begin(unknown)
                await worker.work()
        except asyncio.CancelledError:  # nobody does that here: a signal tells it to stop
            raise InturnError(
                "a handler cancelled the worker's own tasks, as `for one in asyncio.all_tasks(): "
                "one.cancel()` does. What was in hand was given back; start the worker again, and "
                "let handlers cancel only what they have started."
            ) from None
        except HookFailed as failed:
            if self.started is None:
                raise
            failure = failed  # of a stop: all is settled
        finally:
            counting.cancel()
        if self._hurried_code:  # a thread may still run, and the loop would wait for it
            self._tell_end()
            end_process(self._hurried_code)
        with suppress(TimeoutError):  # what is left of the connections ends with the process
            async with asyncio.timeout(STOP_NOW_SECONDS if worker.health.is_troubled else None):
                await worker.app.close()
        self._tell_end()
        if failure is not None:
            raise failure

    def _begin(self, queues_unknown: tuple[str, ...]) -> None:
        _collect_less_garbage()
        worker, settings = self.worker, self._settings
        self.started = Started(
            worker=worker.name,
            app=self._found.name,
            store=without_password(worker.app.url),
            store_named_by=settings.store_named_by or None,
            store_left=self._found.store_left(worker.app.url),
            queues=tuple(worker.queues),
            kinds=worker.kinds,
            concurrency=settings.concurrency,
            processes=1,
            version=inturn.__version__,
            pid=os.getpid(),
            queues_unknown=queues_unknown,
            queues_local=self._local_queues(),
        )
        worker.record.tell(self.started)

    def _local_queues(self) -> tuple[str, ...]:
        """Return the queues of the app's jobs that it leaves to workers that name them."""
        if self._settings.queues is not None:
            return ()
        declared = {job.options.queue for job in self.worker.app.jobs.values()}
        return tuple(sorted(declared - {*self.worker.queues}))

    async def _unknown_queues(self) -> tuple[str, ...]:
        """Return the queues that are most likely mistyped, as far as the store can be asked."""
        app = self.worker.app
        declared = {job.options.queue for job in app.jobs.values()}
        named = [queue for queue in self.worker.queues if queue not in declared]
        if not named:
            return ()
        try:
            known = {status.name for status in await app.run(lambda store: store.queues())}
        except StoreError:  # the worker goes on asking, and says so
            return ()
        return tuple(queue for queue in named if queue not in known)

    def _tell_end(self) -> None:
        record, seconds = self.worker.record, monotonic() - self._began_at
        record.tell(Stopped(worker=self.worker.name, counts=record.counts, seconds=seconds))

    # Stopping

    def stop(self, why: str, *, seconds_max: float | None = None) -> None:
        """Claim nothing more, give back what has not started, and finish what runs."""
        worker = self.worker
        running = worker.running
        with suppress(RuntimeError):  # its loop has just ended
            worker.stop()
        worker.record.tell_aside(
            Stopping(
                worker=worker.name,
                why=why,
                running=running,
                is_member=self._is_member,
                seconds_max=seconds_max,
            )
        )

    def stop_now(self, why: str, code: int) -> None:
        """Give back what runs, and end the process within seconds, whatever runs in it."""
        self._hurried_code = code
        last = threading.Timer(END_SECONDS_MAX, end_process, [code])
        last.daemon = True
        last.start()
        with suppress(RuntimeError):
            self.worker.stop_now()
        if not self._is_member:
            self.worker.record.tell_aside(StoppingNow(worker=self.worker.name, why=why))

    def _obey(self) -> None:
        for number, times in self._signals.heard():
            if number == signal.SIGQUIT:
                self.stop_now(number.name, STOPPED_AT_ONCE)
            elif times == 1 or self._is_member:
                self.stop(number.name)
            elif times == 2:
                self.stop_now(number.name, 128 + number)
            else:
                end_process(128 + number)

    # What handlers left

    async def _cancel_tasks(self) -> None:
        """Cancel what is left on the loop, and wait a moment for it to end."""
        for one in self._tasks:
            one.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_NOW_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_NOW_SECONDS):
                await asyncio.get_running_loop().shutdown_asyncgens()

    def _end_if_kept(self) -> None:
        """End the process if something that handlers left keeps it from ending."""
        time.sleep(LEFT_SECONDS_MAX)
        while not self._left():  # what was registered for the end of the process may take longer
            time.sleep(LEFT_SECONDS_MAX)
        self._end_with_left()

    def _end_with_left(self) -> NoReturn:
        names = tuple(self._left()[:NAMES_MAX])
        self.worker.record.tell(LeftBehind(worker=self.worker.name, names=names))
        end_process(self._code)

    def _left(self) -> list[str]:
        """Return what keeps the process: tasks, else threads, processes of ``multiprocessing``."""
        if tasks := [f"task {task.get_name()!r}" for task in self._tasks if not task.done()]:
            return tasks  # Python does not come to wait for the others
        pools = sys.modules.get("concurrent.futures.thread")
        pooled = getattr(pools, "_threads_queues", ())  # Python waits for them, also for daemons
        names = [
            f"thread {thread.name!r}"
            for thread in threading.enumerate()
            if thread is not threading.main_thread() and (not thread.daemon or thread in pooled)
        ]
        if "multiprocessing" in sys.modules:
            children = sys.modules["multiprocessing"].active_children()
            names += [f"process {child.name!r}" for child in children if not child.daemon]
        return names


async def log_now_and_then(
    settings: WorkSettings, read: Callable[[], Counts], *, is_member: bool = False
) -> None:
    """Log how many jobs were done since the last time; of a supervisor's processes it does."""
    before = 0, 0
    while not (settings.verbose or is_member):
        await asyncio.sleep(COUNT_SECONDS)
        counts = read()
        now = counts.done, counts.failed + counts.dead
        if now != before:
            log_counts(settings.name, now[0] - before[0], now[1] - before[1], COUNT_SECONDS)
            before = now


def end_process(code: int) -> NoReturn:
    """End the process, whatever it is at, when what was written is out or a moment over."""
    flushing = threading.Thread(target=_flush, name="inturn-flush", daemon=True)
    with suppress(RuntimeError):  # no thread can be started
        flushing.start()
        flushing.join(FLUSH_SECONDS_MAX)
    os._exit(code)


def _flush() -> None:
    with suppress(Exception):  # whatever an app's own handlers raise
        logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


def _run_until_done(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end. A loop stops when a task of a handler raises ``SystemExit``."""
    main = loop.create_task(work)
    while not main.done():
        try:
            loop.run_until_complete(main)
        except (SystemExit, KeyboardInterrupt) as error:
            if not main.done():
                guarded(log_raised_on_loop, error)
    main.result()


def _collect_less_garbage() -> None:
    """Let the collector never look again at what was imported so far, and less often at the rest.

    A program that has set a higher threshold, or none, has its way.
    """
    gc.collect()
    gc.freeze()
    newest, *older = gc.get_threshold()
    if 0 < newest < COLLECT_EVERY:
        gc.set_threshold(COLLECT_EVERY, *older)

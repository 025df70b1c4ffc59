"""A shift: one worker in this process, from its start to its end, and who may end it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

import inturn
from inturn.model.errors import HookFailed, InturnError, StoreError
from inturn.model.worker_events import (
    LeftBehind,
    Listener,
    Started,
    Stopped,
    Stopping,
    StoppingNow,
)
from inturn.store.address import without_password
from inturn.worker.garbage import leave_alone_what_is_there
from inturn.worker.herald import HURRIED_SECONDS_MAX, TOLD_SECONDS_MAX
from inturn.worker.leaving import Leaving, end_process, replace_lost_streams
from inturn.worker.namesake import namesake
from inturn.worker.parting import PART_SECONDS_MAX
from inturn.worker.settings import WorkSettings
from inturn.worker.signals import Signalled

LAST_SECONDS_MAX = 4 * PART_SECONDS_MAX  # from being told to stop at once until the process is gone


class WorkerCancelled(InturnError):
    """A worker was cancelled from inside. What it had in hand was given back."""

    def __init__(self) -> None:
        super().__init__(
            "a handler cancelled the worker's own tasks, as `for one in asyncio.all_tasks(): "
            "one.cancel()` does. What was in hand was given back; start the worker again, and let "
            "handlers cancel only what they have started."
        )


class Shift:
    """Runs a worker. The first signal lets it finish, the second not, the third not even clean up.

    A process does not end while a thread in it will not, or its loop is blocked; so one that is to
    stop at once is ended from here if need be. Nor does it while it writes to a pipe that nobody
    reads: what is told of a stop is told beside it, and for its last words there is a moment only.
    """

    def __init__(
        self,
        settings: WorkSettings,
        listener: Listener,
        *,
        emptied: Callable[[], None] = lambda: None,
        finished: Callable[[], None] = lambda: None,
    ) -> None:
        """``emptied``: called when nothing is left to drain, before the stop hooks.

        ``finished``: called when all is done, before that is told, which nobody may hear.
        """
        self._found, self.worker = settings.worker(listener)
        self._settings, self._emptied, self._finished = settings, emptied, finished
        self._signalled = Signalled()
        self._code = 0
        self._began, self._has_begun = monotonic(), False
        self._leaving = Leaving(self._tell_left)

    def run(self) -> None:
        """Work until told to stop, on a loop of its own."""
        try:
            self._leaving.run(self.work())
        finally:
            is_told = self.worker.record.is_told(HURRIED_SECONDS_MAX)
            if is_told:
                replace_lost_streams()
        if not is_told:  # Python itself would wait for who reads it
            end_process(0)

    def leave(self, code: int) -> None:
        """Let the process end with a code, now that all is said, whatever handlers left in it."""
        self._leaving.leave(code)

    def started(self, queues_unknown: tuple[str, ...] = (), namesake: str | None = None) -> Started:
        """Say what works here."""
        worker = self.worker
        return Started(
            worker=worker.name,
            app=self._found.name,
            store=without_password(worker.app.url),
            store_named_by=self._settings.store_named_by or None,
            store_left=self._found.store_left(worker.app.url),
            queues=tuple(worker.queues),
            kinds=worker.kinds,
            concurrency=self._settings.concurrency,
            processes=1,
            version=inturn.__version__,
            pid=os.getpid(),
            queues_unknown=queues_unknown,
            namesake=namesake,
        )

    async def work(self) -> None:
        """Work until told to stop."""
        failure: HookFailed | None = None
        worker, tell = self.worker, self.worker.record.tell
        await worker.app.open()
        started = self.started(await self._find_unknown(), await self._find_namesake())
        self._began = monotonic()

        def began() -> None:
            self._has_begun = True
            leave_alone_what_is_there()
            tell(started)

        settings = self._settings
        try:
            await worker.run(
                until_empty=settings.until_empty,
                heir_of=settings.heir_of,
                began=began,
                emptied=self._emptied,
            )
        except asyncio.CancelledError:  # nobody does that here: a signal tells it to stop
            raise WorkerCancelled from None
        except HookFailed as failed:
            if not self._has_begun:
                raise
            failure = failed  # of a stop: all is settled
        if self._code:  # a thread may still run, and the loop would wait for it
            self._tell_end()
            end_process(self._code)
        with suppress(TimeoutError):  # what is left of the connections ends with the process
            async with asyncio.timeout(PART_SECONDS_MAX if worker.vitals.is_troubled else None):
                await worker.app.close()
        self._tell_end()
        if failure is not None:
            raise failure

    def signalled(self, number: signal.Signals) -> None:
        """Hear a signal: stop; the second time, at once; the third, end."""
        match self._signalled.count(number):
            case 0:
                pass  # it was heard already
            case 1:
                self.stop(number.name)
            case 2:
                self.stop_now(number.name, code=128 + number)
            case _:
                end_process(128 + number)

    def stop(self, why: str, *, quietly: bool = False) -> None:
        """Claim nothing more, release what has not started, and finish what runs."""
        worker = self.worker
        if not quietly:
            worker.record.tell(Stopping(worker=worker.name, why=why, running=worker.running))
        with suppress(RuntimeError):  # its loop has just ended
            worker.stop()

    def stop_now(self, why: str, *, code: int, quietly: bool = False) -> None:
        """Give back what runs, and end the process within seconds, whatever runs in it."""
        last = threading.Timer(LAST_SECONDS_MAX, end_process, [code])
        last.daemon = True
        with suppress(RuntimeError):  # no thread can be started: do what else can be done
            last.start()
        worker = self.worker
        self._code = code
        if not quietly:
            worker.record.tell(StoppingNow(worker=worker.name, why=why))
        with suppress(RuntimeError):
            worker.stop_now()

    async def _find_unknown(self) -> tuple[str, ...]:
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

    async def _find_namesake(self) -> str | None:
        """Say where another worker of this name is, as far as the store can be asked."""
        if not self._settings.is_named:
            return None
        app = self.worker.app
        try:
            async with asyncio.timeout(PART_SECONDS_MAX):
                views = await app.run(lambda store: store.workers())
                return namesake(self.worker.name, views, await app.run(lambda store: store.now()))
        except (StoreError, TimeoutError):
            return None

    def _tell_end(self) -> None:
        worker = self.worker
        seconds = monotonic() - self._began
        self._finished()
        worker.record.tell(
            Stopped(worker=worker.name, counts=worker.record.counts, seconds=seconds)
        )
        worker.record.is_told(HURRIED_SECONDS_MAX if self._code else TOLD_SECONDS_MAX)

    def _tell_left(self, names: tuple[str, ...]) -> None:
        self.worker.record.tell_here(LeftBehind(worker=self.worker.name, names=names))

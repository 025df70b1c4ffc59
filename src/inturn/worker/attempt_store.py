"""The store as one running attempt may use it: under the lease of its own job."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from inturn.model.errors import BadInput, LeaseLost, StoreError
from inturn.model.job import LeasedJob
from inturn.policy.settlement import Outcome, Settlement
from inturn.queue.app import App
from inturn.queue.transaction import JobTransaction
from inturn.store.queries import Query
from inturn.store.store import Store
from inturn.worker.ends import DONE, End
from inturn.worker.runs import Run

PROGRESS_SECONDS = 1.0


class LeaseStore:
    """What the context of one attempt asks the store, over its lease."""

    __slots__ = (
        "_app", "_is_open", "_job", "_lease_seconds", "_progress", "_run", "_store", "_worker",
    )  # fmt: skip

    def __init__(
        self, store: Store, worker: str, run: Run, job: LeasedJob, lease_seconds: float, app: App
    ) -> None:
        self._store, self._worker, self._run, self._job = store, worker, run, job
        self._lease_seconds, self._app = lease_seconds, app
        self._is_open = False  # its transaction
        self._progress: Progress | None = None  # made by a handler that says how far it is

    @property
    def is_settled(self) -> bool:
        """Whether its transaction has said what becomes of the job."""
        return not self._is_open and self._job.position in self._run.settled_elsewhere

    @property
    def is_lost(self) -> bool:
        """Whether the job is someone else's by now, as far as the worker has heard."""
        return self._run.is_lost and not self.is_settled

    async def heartbeat(self) -> None:
        """Prolong the lease now; raise ``LeaseLost`` if it is gone."""
        if self.is_settled:
            return  # its own transaction has said what becomes of the job
        lease = self._run.lease
        lost = await self._store.extend([lease], lease_seconds=self._lease_seconds)
        if lost or self._run.is_lost:
            raise LeaseLost([lease.token])

    async def progress(self, fraction: float, note: str) -> None:
        """Let it be known how far the job is; raise ``LeaseLost`` if the lease is gone."""
        if self.is_settled:
            return
        if self._run.is_lost:
            raise LeaseLost([self._run.lease.token])
        if self._progress is None:
            self._progress = Progress(self._store, self._run, self._job)
        await self._progress.say(fraction, note)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[JobTransaction]:
        """Open a transaction that says, when it commits, what becomes of the job."""
        run = self._run
        async with self._settling():
            with JobTransaction(self._app, by=f"job {self._job.id}") as transaction:
                async with self._store.transaction() as inner:
                    transaction.begin(inner)
                    yield transaction
                    # From here on, that the lease is gone may mean that the job is settled.
                    run.settled_elsewhere[self._job.position] = transaction.verdict
                    said = Settlement(run.lease, [Outcome(self._job, transaction.verdict)])
                    await transaction.finish([said], worker=self._worker)

    async def done_with(self, query: Query[Any], row: Any) -> None:
        """Write a row, and that the job is done, in a transaction that others may share."""
        run = self._run
        async with self._settling():
            run.settled_elsewhere[self._job.position] = DONE
            await run.runs.ends.handle(End(run, self._job, query, row))

    @asynccontextmanager
    async def _settling(self) -> AsyncIterator[None]:
        """Open the one transaction of the attempt, when the jobs before it in its lane are settled.

        A second inside would say that the job is done before the first has committed.
        """
        if self._is_open or self.is_settled:
            now = "has committed" if self.is_settled else "is open"
            raise BadInput(
                f"the job's transaction {now}, and an attempt has one. Write all that belongs to "
                f"it inside that one."
            )
        self._is_open = True
        try:
            await self._run.all_settled()
            yield
        except BaseException:
            self._run.settled_elsewhere.pop(self._job.position, None)
            raise
        finally:
            self._is_open = False

    async def call(self, kind: str, payload: str, timeout_seconds: float | None) -> Any:
        """Run another job of the app as a part of this attempt, and return what it returns."""
        attempts = self._run.runs.attempts.get(kind)
        if attempts is None:
            raise BadInput(f"the app of this worker has no job {kind!r}.")
        part = msgspec.structs.replace(
            self._job, kind=kind, payload=payload, timeout_seconds=timeout_seconds
        )
        return await attempts.value(part, self._run, PartOfAttempt(self))

    def end(self) -> None:
        """Hear that the attempt has ended."""
        if self._progress is not None:
            self._progress.end()


class PartOfAttempt:
    """What the context of a job asks the store that runs as a part of another's attempt."""

    __slots__ = ("_whole",)

    def __init__(self, whole: LeaseStore) -> None:
        self._whole = whole

    @property
    def is_lost(self) -> bool:
        """Whether the whole is someone else's by now."""
        return self._whole.is_lost

    async def heartbeat(self) -> None:
        """Prolong the lease of the whole."""
        await self._whole.heartbeat()

    async def progress(self, fraction: float, note: str) -> None:
        """Let it be known how far the whole is."""
        await self._whole.progress(fraction, note)

    def transaction(self) -> AbstractAsyncContextManager[JobTransaction]:
        """Refuse: whoever called it writes down its end."""
        raise BadInput(
            "this job runs as a step of a group, which writes down its end by itself, so that "
            "ctx.transaction() is not for it. For your own rows: app.transaction()."
        )

    async def done_with(self, query: Query[Any], row: Any) -> None:
        """Refuse: as a transaction."""
        self.transaction()

    async def call(self, kind: str, payload: str, timeout_seconds: float | None) -> Any:
        """Refuse: a part has no parts."""
        raise BadInput("this job runs as a part of another, and can run none itself.")


class Progress:
    """Writes what is said first at once, and of what is said within a second only the last.

    What is said in the last moment before a job ends is not written: the job's end says more.
    """

    __slots__ = ("_job", "_latest", "_loop", "_lost", "_run", "_store", "_timer", "_writing")

    def __init__(self, store: Store, run: Run, job: LeasedJob) -> None:
        self._store, self._run, self._job = store, run, job
        self._loop = asyncio.get_running_loop()
        self._latest: tuple[float, str] | None = None
        self._lost: LeaseLost | None = None
        self._timer: asyncio.TimerHandle | None = None  # until something may be written again
        self._writing: asyncio.Task[None] | None = None

    async def say(self, fraction: float, note: str) -> None:
        """Let it be known; raise ``LeaseLost`` if the lease turned out to be gone."""
        self._latest = (fraction, note)
        if self._timer is None:
            await self._write_latest()
        if self._lost is not None:
            raise self._lost

    def end(self) -> None:
        """Write nothing more; from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._latest = None
        if self._timer is not None:
            self._timer.cancel()

    async def _write_latest(self) -> None:
        if self._latest is None:
            return
        (fraction, note), self._latest = self._latest, None
        self._timer = self._loop.call_later(PROGRESS_SECONDS, self._write_again)
        try:
            await self._store.progress(self._run.lease, self._job.id, fraction=fraction, note=note)
        except LeaseLost as error:
            self._lost = error
        except StoreError:
            pass  # the worker says so, and a job does not fail because it could not be watched

    def _write_again(self) -> None:
        self._timer = None
        if self._latest is not None:
            self._writing = self._loop.create_task(self._write_latest())

"""An app on a private store: what a test submits there stays there, and runs when it says so."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from copy import copy
from datetime import datetime
from inspect import signature
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from inturn.model.errors import BadInput, InturnError
from inturn.model.job import JobState
from inturn.model.payload import encode_payload
from inturn.policy.retry import RetryLater
from inturn.queue.app import App
from inturn.queue.arguments import encode_other
from inturn.queue.connections import Connections
from inturn.queue.job import Job
from inturn.store.store import Store
from inturn.testing.clock import HandClock
from inturn.testing.record import Drained, Record, RecordedStore, Submission
from inturn.worker.worker import Worker

Answer = TypeVar("Answer")

MEMORY = "sqlite:///:memory:"


class DrainTimeout(InturnError, TimeoutError):
    """The jobs of a test did not end within the time that the test gave them."""


class Sandbox:
    """An app on a private store, with a clock that is moved by hand: ``with private(app) as …``,
    or ``async with``.

    While it is entered, everything of the app goes to the private store: its jobs' ``submit``, its
    tickets, its workers. Afterwards the app is as it was. Without an app there is a new one,
    ``sandbox.app``. ``store`` is the URL of an empty one, for tests of what rests on PostgreSQL.
    """

    def __init__(
        self, app: App | None = None, *, store: str = MEMORY, clock: HandClock | None = None
    ) -> None:
        self.clock = clock or HandClock()
        self.app = App(store, clock=self.clock) if app is None else app
        self._store, self._record = store, Record()
        self._connections = _PrivateConnections(store, self.clock, self._record)
        self._before: Connections | None = None  # the app's own, while entered

    # What was submitted

    def submitted(
        self, job: Job[Any, Any] | None = None, /, *args: Any, **kwargs: Any
    ) -> list[Submission]:
        """Return what was submitted, in order: all of it, or that of a job, or that of a job with
        these arguments and what ``job.using(…)`` says.
        """
        found = [Submission(new) for new in self._record.submissions.values()]
        if job is None:
            return found
        arguments = _plain(job, args, kwargs)
        options = _options_said(job)
        return [
            one
            for one in found
            if one.kind == job.kind
            and arguments.items() <= one.arguments.items()
            and all(getattr(one.new, name) == value for name, value in options.items())
        ]

    def assert_submitted(self, job: Job[Any, Any], /, *args: Any, **kwargs: Any) -> Submission:
        """Return the first job submitted with these arguments; fail if there is none:
        ``assert_submitted(send.using(key="customer-7"), to="a@b.c")``.
        """
        __tracebackhide__ = True
        found = self.submitted(job, *args, **kwargs)
        if not found:
            all_said = "\n".join(f"  {one}" for one in self.submitted()[:20]) or "  nothing"
            wanted = f"{job.kind}({_plain(job, args, kwargs)}) {_options_said(job) or ''}".rstrip()
            raise AssertionError(f"{wanted} was not submitted. Submitted:\n{all_said}")
        return found[0]

    def assert_not_submitted(self, job: Job[Any, Any], /, *args: Any, **kwargs: Any) -> None:
        """Fail if the job was submitted; with arguments, if it was submitted with these."""
        __tracebackhide__ = True
        found = self.submitted(job, *args, **kwargs)
        if found:
            raise AssertionError(f"submitted {len(found)} times, first: {found[0]}")

    # Running it

    async def drain(
        self,
        *,
        advance: float | str = 0.0,
        raising: bool = True,
        concurrency: int = 1,
        timeout: float = 10.0,
    ) -> Drained:
        """Run on a worker what may run now, until nothing is left; return what ran.

        - ``advance``: let so much time pass meanwhile, from one job that becomes due to the next;
        - ``raising``: raise the first error of a handler, when all has run;
        - ``concurrency``: a handler that waits for another job needs more than one;
        - ``timeout``: real seconds, after which ``DrainTimeout`` says what still runs.
        """
        ends_at = self.clock.later(advance)
        if self._before is None:
            raise BadInput("enter the sandbox first: `with private(app) as sandbox:`.")
        drained = self._record.drained = Drained()
        work = asyncio.ensure_future(
            self.app.run(lambda store: self._run(store, ends_at, concurrency))
        )
        await asyncio.wait({work}, timeout=timeout)
        if not work.done():
            running = [f"{one.kind!r} {one.id}" for one in self._record.running.values()]
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            raise DrainTimeout(
                f"the jobs did not end within {timeout:g} s: {drained}, "
                f"still running: {', '.join(running) or 'none'}."
            )
        work.result()
        errors = [one for one in drained.ran if not isinstance(one.error, RetryLater | None)]
        if raising and errors:
            assert errors[0].error is not None
            errors[0].error.add_note(f"raised by {errors[0]}; drain(raising=False) returns errors.")
            raise errors[0].error
        return drained

    def drain_sync(
        self,
        *,
        advance: float | str = 0.0,
        raising: bool = True,
        concurrency: int = 1,
        timeout: float = 10.0,
    ) -> Drained:
        """``drain`` for tests that are not async."""
        return self._connections.sync(
            self.drain(advance=advance, raising=raising, concurrency=concurrency, timeout=timeout)
        )

    async def _run(self, store: Store, ends_at: datetime, concurrency: int) -> None:
        while True:
            await store.reclaim()
            await self._work(concurrency)
            due = await _next_due(store, self.clock.now())
            if due is None or due > ends_at:
                break
            self.clock.move_to(due)
        if self.clock.now() < ends_at:
            self.clock.move_to(ends_at)

    async def _work(self, concurrency: int) -> None:
        """Run a worker until nothing is left in any queue, those of new jobs among them."""
        view = copy(self.app)
        view.jobs = {kind: _in_this_process(job) for kind, job in self.app.jobs.items()}
        done: set[str] = set()
        while view.jobs and not done >= (queues := self._queues()):
            done = queues
            worker = Worker(
                view, queues=sorted(queues), concurrency=concurrency, observer=self._record
            )
            await worker.run(until_empty=True)

    def _queues(self) -> set[str]:
        declared = {job.options.queue for job in self.app.jobs.values()}
        return declared | {new.queue for new in self._record.submissions.values()}

    # Beginning and ending

    def __enter__(self) -> Sandbox:
        with suppress(RuntimeError):  # no loop runs
            asyncio.get_running_loop()
            raise BadInput("in async code write `async with private(app)`.")
        self._enter()
        if self._store != MEMORY:
            self._connections.sync(self.app.migrate())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        asyncio.run(self._connections.end())

    async def __aenter__(self) -> Sandbox:
        self._enter()
        if self._store != MEMORY:
            await self.app.migrate()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        await self._connections.end()

    def _enter(self) -> None:
        if self._before is not None:
            raise BadInput("this sandbox is in use already. Make another: private(app).")
        self._before, self.app.connections = self.app.connections, self._connections

    def _leave(self) -> None:
        assert self._before is not None
        self.app.connections, self._before = self._before, None


private = Sandbox  # reads better in a test: `with private(app) as sandbox`


class _PrivateConnections(Connections):
    """How the app reaches the private store: every call is recorded."""

    def __init__(self, url: str, clock: HandClock, record: Record) -> None:
        self._record = record
        super().__init__(url, clock)

    def connect(self) -> Store:
        """Return the store, not open."""
        return RecordedStore(super().connect(), self._record)

    async def close(self) -> None:
        """Do nothing: a store in memory ends when it is closed, and the test goes on."""

    async def end(self) -> None:
        """Close the store: the test is over."""
        await super().close()


def _in_this_process(job: Job[Any, Any]) -> Job[Any, Any]:
    """Return a job that runs where a test can see and replace things, also with process=True."""
    here = job.using()
    here.in_process = False
    return here


def _plain(job: Job[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return arguments by name, as they are in a payload."""
    names = list(signature(job).parameters)[int(job.has_context) :]
    given = dict(zip(names, args, strict=False)) | kwargs
    return {
        name: msgspec.json.decode(encode_payload(value, other=encode_other))
        for name, value in given.items()
    }


def _options_said(job: Job[Any, Any]) -> dict[str, Any]:
    """Return what ``using`` said, by the names of a ``NewJob``."""
    declared = job.app.jobs[job.kind].options
    said = {
        name: getattr(job.options, name)
        for name in declared.__struct_fields__
        if name in job.options_said or getattr(job.options, name) != getattr(declared, name)
    }
    if said.get("dedupe") is True:  # the store has the key that is made of the arguments
        del said["dedupe"]
    return {("delay_seconds" if name == "delay" else name): value for name, value in said.items()}


async def _next_due(store: Store, now: datetime) -> datetime | None:
    """Return when the next scheduled or retrying job is due."""
    due: list[datetime] = []
    for state in (JobState.SCHEDULED, JobState.RETRYING):
        cursor: str | None = None
        while True:
            page = await store.jobs(state=state, cursor=cursor, rows_max=1_000)
            due += [view.run_at for view in page.rows if view.run_at and view.run_at > now]
            cursor = page.cursor
            if cursor is None:
                break
    return min(due, default=None)

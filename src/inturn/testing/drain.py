"""Running what may run on a real worker, until nothing is left or it takes too long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from copy import copy
from datetime import datetime
from typing import Any, NoReturn

from inturn.model import bounds
from inturn.model.admissible import check_number
from inturn.model.job import JobState, JobView
from inturn.policy.retry import RetryLater
from inturn.queue.app import App
from inturn.queue.hooks import Hooks
from inturn.queue.job import Job
from inturn.store.protocol import Store
from inturn.testing.clock import HandClock
from inturn.testing.drained import Drained, Ran
from inturn.testing.errors import DrainTimeout
from inturn.testing.ledger import Ledger
from inturn.worker.watcher import watched_jobs
from inturn.worker.worker import Worker

ENDING_SECONDS = 2.0  # for handlers to end once they are told that time is up


class Drain:
    """One drain: its worker, its time, and what it makes of errors."""

    def __init__(
        self, app: App, ledger: Ledger, clock: HandClock, *, slots: int, timeout: float
    ) -> None:
        check_number("timeout", timeout, 0.001, bounds.WAIT_SECONDS_MAX)
        self._app, self._ledger, self._clock, self._timeout = app, ledger, clock, timeout
        self._slots, self._stops_at = slots, 0.0

    async def run(self, store: Store, ends_at: datetime) -> Drained:
        """Run what may run now, and what becomes due until a time, each at its time."""
        with self._ledger.draining() as drained:
            self._stops_at = asyncio.get_running_loop().time() + self._timeout
            # In a task of its own: what hooks set in context variables is not for the test.
            await asyncio.ensure_future(self._run(store, ends_at))
        return drained

    async def _run(self, store: Store, ends_at: datetime) -> None:
        """Be one worker to the app's hooks, however many it takes for time to pass."""
        if not self._app.jobs:
            await self._pass_time(store, ends_at)
            return
        hooks = self._app.hooks
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._call, "on_stop", hooks.stop, seconds_min=ENDING_SECONDS)
            await self._call("on_start", hooks.start, seconds_min=0.0)
            await self._pass_time(store, ends_at)

    async def _call(
        self, name: str, hooks: Callable[[], Awaitable[None]], *, seconds_min: float
    ) -> None:
        """Call hooks, here, so that jobs see the context variables that they set."""
        limit = asyncio.timeout(max(self._left(), seconds_min))
        try:
            async with limit:
                await hooks()
        except TimeoutError:
            if limit.expired():
                self._complain(f"a hook of {name}")
            raise

    async def _pass_time(self, store: Store, ends_at: datetime) -> None:
        while True:
            await store.reclaim()  # what others lost is found at once, not by the next sweep
            if self._app.jobs:
                await self._work()
            due = await _next_due(store, self._clock.now())
            if due is None or due > ends_at:
                break
            self._wait_for(due)
        self._wait_for(ends_at)

    def _wait_for(self, time: datetime) -> None:
        """Let time pass until a moment, unless a handler has moved the clock further."""
        if self._clock.now() < time:
            self._clock.move_to(time)

    async def _work(self) -> None:
        """Let a worker work until all is still in every queue that jobs were submitted to."""
        queues: set[str] = set()
        while not queues >= (known := self._queues()):
            queues = known
            view = _view(self._app, self._ledger)
            worker = Worker(view, queues=sorted(queues), slots=self._slots)
            running = asyncio.ensure_future(worker.run())
            still = asyncio.ensure_future(self._ledger.still(queues))
            try:
                await asyncio.wait(
                    {running, still}, timeout=self._left(), return_when=asyncio.FIRST_COMPLETED
                )
                if running.done():
                    running.result()
                if not still.done():
                    self._complain()
            finally:
                still.cancel()
                worker.stop()
                await _ended(running)

    def _queues(self) -> set[str]:
        declared = {job.options.queue for job in self._app.jobs.values()}
        return declared | {one.queue for one in self._ledger.submissions.values()}

    def _left(self) -> float:
        return self._stops_at - asyncio.get_running_loop().time()

    def _complain(self, *running: str) -> NoReturn:
        jobs = self._ledger.in_hand.jobs
        running += tuple(f"{job.kind!r} {job.id} (attempt {job.attempt})" for job in jobs)
        most, advice = self._ledger.ran_most(), ""
        if most is not None and most[1] > 1:
            advice = f"{most[0]!r} ran {most[1]:,} times: does it submit itself for ever? "
        raise DrainTimeout(self._timeout, str(self._ledger.drained), running[:5], advice)


def raise_first(drained: Drained) -> None:
    """Raise what the first handler raised that did not only ask to come later."""
    failed = [
        (one, one.error)
        for one in drained.ran
        if one.error is not None and not isinstance(one.error, RetryLater)
    ]
    if failed:
        (first, error), *others = failed
        error.add_note(_note(first, [one for one, _ in others]))
        raise error


async def _next_due(store: Store, now: datetime) -> datetime | None:
    """Return the next moment at which a job may run that may not run yet."""
    due: list[datetime] = []
    for state in (JobState.SCHEDULED, JobState.RETRYING, JobState.RUNNING):
        cursor = None
        while True:
            page = await store.jobs(state=state, cursor=cursor, rows_max=bounds.PAGE_ROWS_MAX)
            due += [at for one in page.rows if (at := _due(one)) is not None and at > now]
            cursor = page.cursor
            if cursor is None:
                break
    return min(due, default=None)


def _due(view: JobView) -> datetime | None:
    return view.leased_until if view.state is JobState.RUNNING else view.run_at


def _view(app: App, ledger: Ledger) -> App:
    """Return the app for a worker in this process, its store watched by the sandbox already."""
    view = copy(app)
    view.jobs = {kind: _here(job) for kind, job in app.jobs.items()}
    view.hooks = Hooks()  # the drain calls them; what surrounds an attempt is found by its job
    return watched_jobs(view, ledger)


def _here(job: Job[Any, Any]) -> Job[Any, Any]:
    """Return a job that runs in this process, where a test can see and replace things."""
    here = job.using()
    here.in_process = False
    return here


def _note(first: Ran, others: Sequence[Ran]) -> str:
    lines = [f"raised by {first}; drain(raising=False) returns errors instead."]
    lines += [f"also failed: {one}, with {one.error!r}" for one in others[:10]]
    return "\n".join(lines)


async def _ended(running: asyncio.Future[None]) -> None:
    """Wait until a worker has ended; one whose handlers do not is left behind."""
    for _ in range(3):
        await asyncio.wait({running}, timeout=ENDING_SECONDS)
        if running.done():
            break
        running.cancel()

"""Running what may run on a real worker, until nothing is left or it takes too long."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy
from datetime import datetime
from typing import Any, NoReturn

from inturn.model import bounds
from inturn.model.admissible import check_number
from inturn.model.job import JobState, JobView
from inturn.policy.retry import RetryLater
from inturn.queue.app import App
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
        drained = self._ledger.drained = Drained()
        self._stops_at = asyncio.get_running_loop().time() + self._timeout
        while True:
            await store.reclaim()  # what others lost is found at once, not by the next sweep
            if self._app.jobs:
                await self._work()
            due = await _next_due(store, self._clock.now())
            if due is None or due > ends_at:
                break
            self._clock.move_to(due)
        if self._clock.now() < ends_at:
            self._clock.move_to(ends_at)
        return drained

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
                left = self._stops_at - asyncio.get_running_loop().time()
                await asyncio.wait(
                    {running, still}, timeout=left, return_when=asyncio.FIRST_COMPLETED
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

    def _complain(self) -> NoReturn:
        running = [
            f"{job.kind!r} {job.id} (attempt {job.attempt})" for job in self._ledger.in_hand.jobs
        ]
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

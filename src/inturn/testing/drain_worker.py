"""The worker of a drain: one that goes on from moment to moment, for as long as it can."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from copy import copy
from typing import Any

from inturn.queue.app import App
from inturn.queue.hooks import Hooks
from inturn.queue.job import Job
from inturn.testing.ledger import Ledger
from inturn.worker.worker import Worker


class DrainWorker:
    """Works when it is asked to. To begin and end a worker costs more than most tests' jobs do.

    Another takes its place where it would not find everything: in a queue, or of a kind, that was
    not there when it began; and suspects, for which a worker looks now and then only.

    ``ending_seconds``: how long handlers have to end once they are told that time is up.
    """

    def __init__(self, app: App, ledger: Ledger, *, slots: int, ending_seconds: float) -> None:
        self._app, self._ledger, self._slots = app, ledger, slots
        self._ending_seconds = ending_seconds
        self._jobs: dict[str, Job[Any, Any]] = {}
        self._queues: Set[str] = frozenset()
        self._worker: Worker | None = None
        self._running: asyncio.Future[None] | None = None

    async def work(self, queues: Set[str], *, seconds: float, is_new: bool) -> bool:
        """Run what may run in these queues; say whether all was still in time.

        ``is_new``: by a worker that looks for everything.
        """
        if is_new or self._worker is None or self._queues != queues or self._jobs != self._app.jobs:
            await self.end()
            self._begin(queues)
        assert self._running is not None
        still = asyncio.ensure_future(self._ledger.still(queues))
        try:
            await asyncio.wait(
                {self._running, still}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if self._running.done():
                self._running.result()
            return still.done()
        finally:
            still.cancel()

    def _begin(self, queues: Set[str]) -> None:
        self._queues, self._jobs = queues, dict(self._app.jobs)
        self._ledger.in_hand.clear()  # what others have taken is not this worker's to end
        self._worker = Worker(
            _view(self._app), queues=sorted(queues), concurrency=self._slots, observer=self._ledger
        )
        self._running = asyncio.ensure_future(self._worker.run())

    async def end(self) -> None:
        """Wait until the worker has ended; one whose handlers do not is left behind."""
        if self._worker is None or self._running is None:
            return
        self._worker.stop()
        for _ in range(3):
            await asyncio.wait({self._running}, timeout=self._ending_seconds)
            if self._running.done():
                break
            self._running.cancel()
        self._worker = self._running = None


def _view(app: App) -> App:
    """Return the app for a worker in this process, its store watched by the sandbox already."""
    view = copy(app)
    view.jobs = {kind: _here(job) for kind, job in app.jobs.items()}
    view.hooks = Hooks()  # the drain calls them; what surrounds an attempt is found by its job
    return view


def _here(job: Job[Any, Any]) -> Job[Any, Any]:
    """Return a job that runs in this process, where a test can see and replace things."""
    here = job.using()
    here.in_process = False
    return here

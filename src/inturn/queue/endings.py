"""Waiting for the ends of jobs: one statement a look for all tickets of an app on one loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any
from uuid import UUID

from inturn.model.job import JobState
from inturn.store.store import Store

PAUSE_SECONDS_FIRST = 0.005
PAUSE_SECONDS_MAX = 0.25
LOOK_SECONDS = 0.002
"""So long passes between two looks, and twice the time that the one before took."""


Run = Callable[[Callable[[Store], Awaitable[Any]]], Awaitable[Any]]
"""Calls a verb of an app's store."""


class Endings:
    """Those who wait for jobs to end, and the task that looks for all while there are any."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._waiting: dict[UUID, set[asyncio.Future[JobState | None]]] = {}
        self._queues: dict[UUID, str] = {}
        self._news: set[UUID] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, job: UUID, queue: str, timeout_seconds: float | None) -> JobState | None:
        """Sleep until a job of a queue has ended, and return how; None: look, or the time is up."""
        future: asyncio.Future[JobState | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job, set()).add(future)
        self._queues[job] = queue
        self._news.add(job)
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look_for_all())
        try:
            await asyncio.wait([future], timeout=timeout_seconds)
            return future.result() if future.done() else None
        finally:
            await self._leave(job, future)

    async def _leave(self, job: UUID, future: asyncio.Future[JobState | None]) -> None:
        futures = self._waiting.get(job, set())
        futures.discard(future)
        if not futures:
            self._forget(job)
        if not self._waiting and self._task is not None:
            self._changed.set()
            await asyncio.wait([self._task])  # nothing of ours uses the store any more

    def _forget(self, job: UUID) -> None:
        self._waiting.pop(job, None)
        self._queues.pop(job, None)
        self._news.discard(job)

    def _tell(self, ended: Mapping[UUID, JobState | None]) -> None:
        for job, state in ended.items():
            for future in self._waiting.get(job, ()):
                if not future.done():
                    future.set_result(state)
            self._forget(job)

    async def _look_for_all(self) -> None:
        try:
            await self._look_until_all_ended()
        except Exception:  # they meet it themselves when they look, but not at once and all again
            await asyncio.sleep(PAUSE_SECONDS_MAX)
            self._tell(dict.fromkeys(self._waiting))

    async def _look_until_all_ended(self) -> None:
        loop = asyncio.get_running_loop()
        mark, pause, next_look_at = 0, PAUSE_SECONDS_FIRST, 0.0
        while self._waiting:
            self._changed.clear()
            if self._news:
                jobs, pause = list(self._news), PAUSE_SECONDS_FIRST
            else:
                seen, mark = mark, await self._sleep(mark, pause)
                jobs, pause = list(self._waiting), min(pause * 1.5, PAUSE_SECONDS_MAX)
                if mark == seen:
                    continue
            await asyncio.sleep(next_look_at - loop.time())
            self._news.difference_update(jobs)
            began = loop.time()
            self._tell(await self._look(jobs))
            next_look_at = loop.time() + max(LOOK_SECONDS, 2 * (loop.time() - began))

    async def _look(self, jobs: Collection[UUID]) -> dict[UUID, JobState | None]:
        ended: dict[UUID, JobState | None] = await self._run(lambda store: store.ended(jobs))
        return ended

    async def _sleep(self, mark: int, seconds: float) -> int:
        """Sleep until jobs may have ended, who waits has changed, or some time has passed."""
        queues = set(self._queues.values())
        heard: asyncio.Future[Any] = asyncio.ensure_future(
            self._run(lambda store: store.wait_ended(queues, mark, timeout_seconds=seconds))
        )
        changed: asyncio.Future[Any] = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait([heard, changed], return_when=asyncio.FIRST_COMPLETED)
            return int(heard.result()) if heard.done() else mark
        finally:
            changed.cancel()
            heard.cancel()
            await asyncio.wait([heard, changed])

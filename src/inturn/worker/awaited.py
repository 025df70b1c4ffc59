"""Waiting for jobs in a store: until a key's line has ended, until what was accepted has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from uuid import UUID

from inturn.model import bounds
from inturn.model.errors import EarlierFailure, UnknownJob
from inturn.model.job import JobState, JobView
from inturn.model.lane import LaneState
from inturn.store.protocol import Store
from inturn.worker.ends import Ends
from inturn.worker.store_room import LOOK_SECONDS

STILL_SECONDS = 0.25  # without an end, before the store is asked what became of a job
REAPED_MAX = 100

_ON_THEIR_WAY = (JobState.WAITING, JobState.RUNNING, JobState.RETRYING, JobState.RUNNING)
"""The states of jobs in a line, as they go through them: who looks in this order misses none that
goes on from one to the next meanwhile."""
_ENDED = (JobState.DONE, JobState.DEAD, JobState.CANCELLED)
_STUCK = (LaneState.HALTED, LaneState.PAUSED, LaneState.GATED)
_BUSY = (LaneState.LEASED, LaneState.SLEEPING)


class Awaited:
    """What an executor waits for: heard from its worker, and asked of the store where it is not.

    ``check`` raises when there is no worker any more to wait for.
    """

    def __init__(self, ends: Ends, check: Callable[[], None]) -> None:
        self._ends, self._check = ends, check

    async def line(self, store: Store, queues: Iterable[str], key: str) -> None:
        """Wait until what stands in a key's line now has ended; raise if some of it failed."""
        failures, first = 0, ""
        for queue in queues:
            for view in await _in_line(store, queue, key):
                ended = await self._ended(store, view)
                if ended is not None and ended.state is JobState.DEAD:
                    failures, first = failures + 1, first or ended.reason or ""
        seen, error = self._ends.take_failures(key)
        if seen or failures:
            raise EarlierFailure(key, max(seen, failures), error or first)

    async def all(self, store: Store) -> None:
        """Wait until everything accepted here has ended, or can only be ended by someone else."""
        while self._ends.awaited:
            if not await self._ends.next(STILL_SECONDS) and not await self._moves(store):
                return

    async def reap(self, store: Store) -> None:
        """Forget jobs that ended elsewhere: cancelled, or run by another process."""
        for id in list(self._ends.awaited)[:REAPED_MAX]:
            await self._look(store, id)

    async def _ended(self, store: Store, view: JobView) -> JobView | None:
        """Wait until a job has ended; None if that is so long ago that it was pruned."""
        while True:
            try:  # it may have ended while another one was waited for
                view = await store.job(view.job.id)
            except UnknownJob:
                return None
            if view.state in _ENDED:
                return view
            self._check()
            await self._check_halted(store, view.job.queue, view.job.key or "")
            await self._ends.next(STILL_SECONDS)

    async def _check_halted(self, store: Store, queue: str, key: str) -> None:
        for lane in (await store.lanes(queue, key=key)).rows:
            if lane.state is LaneState.HALTED and lane.halted_job is not None:
                count, error = self._ends.take_failures(key)
                reason = (await store.job(lane.halted_job)).reason or ""
                raise EarlierFailure(key, max(count, 1), error or reason)

    async def _moves(self, store: Store) -> bool:
        """Whether a job that is waited for will end if one waits."""
        self._check()
        paused = {one.name for one in await store.queues() if one.paused_by is not None}
        for id, job in list(self._ends.awaited.items()):
            view = await self._look(store, id)
            if view is None or job.queue in paused:
                continue
            if view.state in (JobState.RUNNING, JobState.RETRYING):
                return True
            if view.state is JobState.WAITING:
                page = await store.lanes(job.queue, key=job.key)
                if not any(lane.state in _STUCK for lane in page.rows):
                    return True
        return False

    async def _look(self, store: Store, id: UUID) -> JobView | None:
        """Return a job that has not ended; forget one that has."""
        try:
            view = await store.job(id)
        except UnknownJob:
            view = None
        if view is None or view.state in _ENDED:
            self._ends.forget([id])
            return None
        return view


async def _in_line(store: Store, queue: str, key: str) -> list[JobView]:
    """Return the jobs that stand in a key's line: the one that runs or retries, those that wait."""
    while True:
        found: dict[UUID, JobView] = {}
        for state in _ON_THEIR_WAY:
            found |= {view.job.id: view for view in await _listed(store, queue, key, state)}
        lanes = (await store.lanes(queue, key=key)).rows
        if found or not any(lane.depth or lane.state in _BUSY for lane in lanes):
            return list(found.values())
        await asyncio.sleep(LOOK_SECONDS)  # it went from one state to another while we looked


async def _listed(store: Store, queue: str, key: str, state: JobState) -> list[JobView]:
    found: list[JobView] = []
    cursor = None
    while True:
        page = await store.jobs(
            state=state, queue=queue, key=key, cursor=cursor, rows_max=bounds.PAGE_ROWS_MAX
        )
        found += page.rows
        cursor = page.cursor
        if cursor is None:
            return found

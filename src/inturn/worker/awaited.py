"""Waiting for jobs in a store: until a key's line has ended, until what was accepted has."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from uuid import UUID

from inturn.log import log_barrier_stuck, log_left
from inturn.model import bounds
from inturn.model.errors import EarlierFailure, InturnError, StoreError, UnknownJob
from inturn.model.job import JobState, JobView
from inturn.model.lane import LaneState
from inturn.policy.explain import WORKER_SEEN_SECONDS
from inturn.store.protocol import Store
from inturn.worker.ends import ENDED, Ends
from inturn.worker.failures import Barrier
from inturn.worker.store_room import FRESH_SECONDS, LOOK_SECONDS, LOOKS_SHARE_MAX
from inturn.worker.unheard import just_before

STILL_SECONDS = 0.25  # without an end, before the store is asked what became of a job
STUCK_SECONDS = 5.0  # before the log says what a barrier waits for, if only others can end it …
STUCK_AGAIN_SECONDS = 300.0  # … and before it says so again
REAPED_MAX = 100

_ON_THEIR_WAY = (JobState.WAITING, JobState.RUNNING, JobState.RETRYING, JobState.RUNNING)
"""The states of jobs in a line, as they go through them: who looks in this order misses none that
goes on from one to the next meanwhile."""
_STUCK = (LaneState.HALTED, LaneState.PAUSED, LaneState.GATED)
_BUSY = (LaneState.LEASED, LaneState.SLEEPING)
_TO_BE_CLAIMED = (LaneState.READY, LaneState.SLEEPING)


class Awaited:
    """What an executor waits for: heard from its worker, and asked of the store where it is not.

    ``check`` raises when there is no worker any more to wait for. ``takes`` says whether there is
    one here that takes a kind of job from a queue.
    """

    def __init__(
        self, ends: Ends, check: Callable[[], None], takes: Callable[[str, str], bool]
    ) -> None:
        self._ends, self._check, self._takes = ends, check, takes

    async def line(self, store: Store, queues: Iterable[str], key: str) -> None:
        """Wait until what stands in a key's line now has ended; raise if some of it failed."""
        with self._ends.failures.barrier(key) as barrier:
            line = {id: None for queue in queues for id in await _in_line(store, queue, key)}
            ending = [id for id in self._ends.of_key(key) if id not in line]
            self._ends.failures.cover(barrier, [*ending, *line])
            for id in ending:  # the store has settled them, as the worker has not heard yet
                await self._find(store, id, barrier)
            patience = Patience(STUCK_SECONDS)
            for id in line:
                await self._ended(store, id, patience, barrier)
            failure = self._ends.failures.tell(barrier)
            if failure is not None:
                raise failure

    async def all(self, store: Store) -> None:
        """Wait until everything accepted here has ended, or can only be ended by someone else."""
        patience = Patience(STILL_SECONDS)
        while self._ends.awaited:
            await self._ends.next(patience.left)
            if patience.is_over:  # also while jobs end, for they may be those of others
                if not await self._moves(store):
                    return
                patience.restart(STILL_SECONDS)

    async def look_on(self, lend: Callable[[], Awaitable[Store]]) -> None:
        """Look again and again for what was cancelled, which no worker hears of."""
        with suppress(InturnError):  # there is no store: the worker ends with why
            store = await lend()  # once: not to open again what someone closes
            while True:
                began = monotonic()
                with suppress(StoreError):  # the worker says so, and it may pass
                    await self._hear_cancelled(store)
                await asyncio.sleep(max(FRESH_SECONDS, (monotonic() - began) / LOOKS_SHARE_MAX))

    async def _hear_cancelled(self, store: Store) -> None:
        """Tell of jobs accepted here that were cancelled, among all that were, by whomever.

        Both are gone through in the order of ids: where a page ends, the next begins with the first
        job behind it that is waited for. So it takes no more pages than there are such jobs, nor
        than hold all that was cancelled since the first of them.
        """
        awaited, place = sorted(self._ends.awaited), 0
        while place < len(awaited):
            begin = just_before(awaited[place])
            page = await store.jobs(state=JobState.CANCELLED, cursor=begin, rows_max=REAPED_MAX)
            for view in page.rows:
                self._ends.cancelled(view)
            if page.cursor is None:
                return
            place = bisect_right(awaited, page.rows[-1].job.id)

    async def say_left(self, store: Store) -> None:
        """Say in the log what was accepted here and has not ended."""
        found = await self.reap(store)
        left = [view for view in found if view.state is not JobState.SCHEDULED]
        if left:
            jobs = len(self._ends.awaited) - len(found) + len(left)
            log_left(jobs, await store.explain(left[0].job.id))

    async def reap(self, store: Store) -> list[JobView]:
        """Forget jobs that ended elsewhere: cancelled, or run by another process.

        Returns those that have not ended, of the first few.
        """
        views = [await self._look(store, id) for id in list(self._ends.awaited)[:REAPED_MAX]]
        return [view for view in views if view is not None]

    async def _ended(self, store: Store, id: UUID, patience: Patience, barrier: Barrier) -> None:
        """Wait until a job that a barrier waits for has ended."""
        while (view := await self._find(store, id, barrier)) is not None:
            self._check()
            await self._check_halted(store, view.job.queue, barrier)
            if patience.is_over:
                patience.restart(await self._say_stuck(store, view))
            await self._ends.next(STILL_SECONDS)

    async def _find(self, store: Store, id: UUID, barrier: Barrier) -> JobView | None:
        """Return a job that has not ended; note one that failed."""
        try:
            view = await store.job(id)
        except UnknownJob:  # it ended so long ago that it was pruned
            return None
        if view.state is JobState.DEAD:
            self._ends.found_dead(barrier, id, _error_of(view))
        return None if view.state in ENDED else view

    async def _check_halted(self, store: Store, queue: str, barrier: Barrier) -> None:
        for lane in (await store.lanes(queue, key=barrier.key)).rows:
            if lane.state is LaneState.HALTED and lane.halted_job is not None:
                view = await store.job(lane.halted_job)
                if view.job.id in barrier.covered:  # else it failed before, and may have been told
                    self._ends.found_dead(barrier, view.job.id, _error_of(view))
                failure = self._ends.failures.tell(barrier)
                raise failure or EarlierFailure(barrier.key, 1, _error_of(view))

    async def _say_stuck(self, store: Store, view: JobView) -> float:
        """Say why a job that a barrier waits for is stuck, if so; return when to look again."""
        if not await self._is_stuck(store, view, await _paused(store)):
            return STUCK_SECONDS
        with suppress(UnknownJob):
            log_barrier_stuck(view.job.key or "", await store.explain(view.job.id))
        return STUCK_AGAIN_SECONDS

    async def _moves(self, store: Store) -> bool:
        """Whether a job that is waited for will end if one waits."""
        self._check()
        paused = await _paused(store)
        for id in list(self._ends.awaited):
            if id in self._ends.arriving:
                return True
            view = await self._look(store, id)
            if view is not None and not await self._is_stuck(store, view, paused):
                return True
        return False

    async def _is_stuck(self, store: Store, view: JobView, paused: set[str]) -> bool:
        """Whether a job that has not ended waits for a person, a time, a gate, or a worker."""
        if view.state is JobState.RUNNING:
            return False
        queue = view.job.queue
        if view.state not in _ON_THEIR_WAY or queue in paused:
            return True
        for lane in (await store.lanes(queue, key=view.job.key)).rows:
            if lane.state in _STUCK:
                return True
            if lane.state in _TO_BE_CLAIMED and not self._takes(queue, lane.kind):
                return not await _is_taken(store, queue, lane.kind)
        return False

    async def _look(self, store: Store, id: UUID) -> JobView | None:
        """Return a job that has not ended; forget one that has."""
        if id in self._ends.arriving:
            return None  # it may be in the store, or not yet
        try:
            view = await store.job(id)
        except UnknownJob:
            view = None
        return None if self._ends.found(id, view) else view


class Patience:
    """How long to wait before one looks closer."""

    def __init__(self, seconds: float) -> None:
        self.restart(seconds)

    def restart(self, seconds: float) -> None:
        """Have so much of it from now on."""
        self._until = monotonic() + seconds

    @property
    def left(self) -> float:
        """How many seconds are left of it."""
        return max(0.0, self._until - monotonic())

    @property
    def is_over(self) -> bool:
        """Whether none are."""
        return monotonic() >= self._until


def _error_of(dead: JobView) -> str:
    """Return what a job failed with, in the words that a worker has for it."""
    return dead.errors[-1].error if dead.errors else dead.reason or ""


async def _paused(store: Store) -> set[str]:
    return {one.name for one in await store.queues() if one.paused_by is not None}


async def _is_taken(store: Store, queue: str, kind: str) -> bool:
    """Whether a worker, wherever it is, takes a kind of job from a queue, and was seen lately."""
    since = await store.now() - timedelta(seconds=WORKER_SEEN_SECONDS)
    return any(
        queue in one.queues and (not one.kinds or kind in one.kinds)
        for one in await store.workers()
        if one.seen_at is not None and one.seen_at >= since
    )


async def _in_line(store: Store, queue: str, key: str) -> list[UUID]:
    """Return the jobs that stand in a key's line: the one that runs or retries, those that wait."""
    while True:
        found: dict[UUID, JobView] = {}
        for state in _ON_THEIR_WAY:
            found |= {view.job.id: view for view in await _listed(store, queue, key, state)}
        lanes = (await store.lanes(queue, key=key)).rows
        if found or not any(lane.depth or lane.state in _BUSY for lane in lanes):
            return sorted(found, key=lambda id: found[id].position or 0)
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

"""When jobs become due: as the store says, without asking it for all of them each time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from datetime import datetime
from heapq import heappop, heappush
from uuid import UUID

from inturn.model import bounds
from inturn.model.errors import UnknownJob
from inturn.model.job import JobState, JobView
from inturn.store.protocol import Store

_FEW = 20


class Dues:
    """The moments at which jobs may run that may not run yet.

    A job is read when the ledger has heard that it was put off. All of them are read at first, and
    when the store holds more or fewer than are known, as after a handler has used SQL: to read them
    all each time would make a drain quadratic in the jobs that wait for their time.
    """

    def __init__(self) -> None:
        self.has_suspects = False  # whether one was ever seen
        self._known: dict[UUID, datetime] = {}
        self._line: list[tuple[datetime, UUID]] = []  # a heap: the known, and some that were
        self._others: int | None = None  # how many the store holds besides, whose time has come

    async def next(self, store: Store, now: datetime, put_off: Collection[UUID]) -> datetime | None:
        """Return the next of these moments; ``put_off``: jobs that may have one since the last."""
        self._forget(now)
        if len(put_off) <= max(_FEW, len(self._known)):
            await self._read(store, now, put_off)
        queues = await store.queues()
        held = sum(one.scheduled + one.retrying for one in queues)
        if self._others is None or held != len(self._known) + self._others:
            await self._read_all(store, now)
            self._others = held - len(self._known)
        moments = [at for at, _ in self._line[:1]]
        if any(one.running for one in queues):
            moments += await self._ends_of_leases(store)
        return min((at for at in moments if at > now), default=None)

    def _forget(self, now: datetime) -> None:
        """Let go of what has become due, and in front of the rest of what is not known any more."""
        line, known = self._line, self._known
        while line and (line[0][0] <= now or known.get(line[0][1]) != line[0][0]):
            at, id = heappop(line)
            if known.get(id) == at:
                del known[id]

    async def _read(self, store: Store, now: datetime, jobs: Collection[UUID]) -> None:
        for id in jobs:
            with suppress(UnknownJob):  # it was accepted in a transaction that is open yet
                self._note(await store.job(id), now)

    async def _read_all(self, store: Store, now: datetime) -> None:
        self._known.clear()
        self._line.clear()
        for state in (JobState.SCHEDULED, JobState.RETRYING):
            async for view in _views(store, state):
                self._note(view, now)

    def _note(self, view: JobView, now: datetime) -> None:
        self.has_suspects |= view.suspect
        if view.run_at is not None and view.run_at > now:
            self._known[view.job.id] = view.run_at
            heappush(self._line, (view.run_at, view.job.id))

    async def _ends_of_leases(self, store: Store) -> list[datetime]:
        """Return when others' leases run out, and their jobs may be taken back."""
        ends: list[datetime] = []
        async for view in _views(store, JobState.RUNNING):
            self.has_suspects |= view.suspect
            ends += [] if view.leased_until is None else [view.leased_until]
        return ends


async def _views(store: Store, state: JobState) -> AsyncIterator[JobView]:
    cursor = None
    while True:
        page = await store.jobs(state=state, cursor=cursor, rows_max=bounds.PAGE_ROWS_MAX)
        for view in page.rows:
            yield view
        cursor = page.cursor
        if cursor is None:
            return

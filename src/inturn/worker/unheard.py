"""Jobs that may have ended unheard: what the store says of them, a page of them at a time."""

from __future__ import annotations

from uuid import UUID

from inturn.store.paging import encode_cursor
from inturn.store.protocol import Store
from inturn.worker.ends import Ends

LOOKS_PER_JOB = 2
ROWS_MAX = 100


class Unheard:
    """Forgets what ended elsewhere, cancelled or run by another process, so that no more jobs are
    remembered than a few times those that have not ended.

    It goes in rounds, and a round looks once at each job that is waited for as it begins. It begins
    when more are than may wait in the queues, and more than twice as many as the round before left.
    For each job that is submitted meanwhile two are looked at: one would not do, for a round that
    left as many as came during it would never catch up. So a submit costs the same however many are
    outstanding, and nothing while nearly all ends are heard.
    """

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._unseen: list[UUID] = []  # in this round, the first to be looked at at the end
        self._left = 0  # how many of this round have not ended, as far as is known
        self._due = 0  # how many may be looked at for what was submitted

    def is_due(self, jobs: int, *, room: int) -> bool:
        """Hear that so many jobs are to be submitted; say whether to look before.

        ``room``: how many may be outstanding without anything having been missed.
        """
        awaited = self._ends.awaited
        if not self._unseen and len(awaited) > max(room, 2 * self._left):
            # What is on its way may not be in the store yet, and would be taken for pruned.
            arrived = [id for id in awaited if id not in self._ends.arriving]
            self._unseen = sorted(arrived, reverse=True)
            self._left, self._due = len(self._unseen), 0
        if self._unseen:
            self._due += LOOKS_PER_JOB * jobs
        return self._is_due

    async def look(self, store: Store, jobs: int) -> None:
        """Look at as many as are due, with two calls at most for each job that is submitted."""
        calls = 0
        while self._is_due and calls < LOOKS_PER_JOB * jobs:
            await self._look_at_page(store)
            calls += 1

    @property
    def _is_due(self) -> bool:
        """Whether a whole page may be looked at, or all the rest."""
        return bool(self._unseen) and self._due >= min(ROWS_MAX, len(self._unseen))

    async def _look_at_page(self, store: Store) -> None:
        ids = self._next()
        if not ids:
            return
        self._due -= len(ids)
        page = await store.jobs(cursor=just_before(ids[0]), rows_max=len(ids))
        found = {view.job.id: view for view in page.rows}
        last = ids[-1] if page.cursor is None else max(found)
        while ids[-1] > last:  # jobs of others filled the page
            self._unseen.append(ids.pop())
            self._due += 1
        self._left -= sum(self._ends.found(id, found.get(id)) for id in ids)

    def _next(self) -> list[UUID]:
        """Take the next ids that are still waited for, at most a page of them; sorted, for several
        may look at once, and put back what they did not see.
        """
        ids: list[UUID] = []
        while self._unseen and len(ids) < ROWS_MAX:
            id = self._unseen.pop()
            if id in self._ends.awaited:
                ids.append(id)
            else:
                self._left -= 1
        return sorted(ids)


def just_before(id: UUID) -> str:
    """Return the cursor of a list of jobs that goes on with this one."""
    return encode_cursor(UUID(int=id.int - 1))

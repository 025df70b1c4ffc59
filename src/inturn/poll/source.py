"""A source: an outside system whose changes are fetched page by page, each applied once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from inturn.model.admissible import shown
from inturn.model.callables import is_async
from inturn.model.errors import BadInput
from inturn.model.job import NewJob, Ticket
from inturn.poll.page import (
    Change,
    CursorGone,
    Fields,
    Page,
    Shadow,
    ShadowChange,
    SourceBroken,
    check_page,
    differences,
)
from inturn.poll.source_rows import (
    LOCK_SOURCE,
    PAGE_APPLIED,
    SHADOWS,
    SOURCE,
    WRITE_SHADOWS,
    SourceRow,
    WrittenShadow,
)
from inturn.poll.sources import (
    SourceView,
    reconcile_source,
    reset_source,
    run_source,
    source_view,
)
from inturn.queue.arguments import hints_of
from inturn.queue.context import Context
from inturn.queue.job import Job, takes_context
from inturn.store.store import Store
from inturn.store.transaction import Transaction

if TYPE_CHECKING:
    from inturn.queue.app import App

RUN_SECONDS_MAX = 60.0
"""After so long a run hands over to another, so that a long catch-up is many short jobs."""

_json = msgspec.json.Encoder()


class Source:
    """A source as an app declares it, and the job that reads its pages.

    A run begins at the stored cursor and goes on page by page while there is ``more``. A page is
    applied in one transaction: its items' shadows, a job for each change, and the cursor. A page of
    which nothing is new writes nothing.
    """

    def __init__(
        self,
        app: App,
        name: str,
        fetch: Callable[..., Any],
        *,
        fields: Fields,
        restarts: bool,
        hard_deletes: bool,
        sweep_max: int,
        sweep_percent: float,
    ) -> None:
        self.app, self.name, self.fields = app, name, fields
        self.hard_deletes, self.sweep_max, self.sweep_percent = (
            hard_deletes,
            sweep_max,
            sweep_percent,
        )
        self._fetch, self._restarts = fetch, restarts
        self._has_context = takes_context(fetch, hints_of(fetch, {}))
        self.run_job: Job[..., Any]  # declared by the extension
        self.change_job: Job[[Change[Any]], Any] | None = None

    async def __call__(self, *arguments: Any) -> Page[Any]:
        """Call the source's function itself, as if it were no source."""
        if is_async(self._fetch):
            fetched: Page[Any] = await self._fetch(*arguments)
        else:
            fetched = await asyncio.to_thread(self._fetch, *arguments)
        return fetched

    # What happens to a change

    def on_change(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        queue: str | None = None,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Make a job of a function that takes a ``Change``: one for each change, keyed by its item.

        So the changes of one item run one at a time, in their order. ``queue``: by default
        ``changes:NAME``.
        """
        if function is None:
            return lambda given: self.on_change(
                given, queue=queue, attempts=attempts, timeout=timeout
            )
        if self.change_job is not None:
            raise BadInput(f"source {self.name!r} has one on_change, and this is the second.")
        self.change_job = self.app.job(
            kind=f"changes:{self.name}",
            queue=queue or f"changes:{self.name}",
            attempts=attempts,
            timeout=timeout,
        )(self._handler(function))
        return self.change_job

    def _handler(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a handler that gives a function its change with the item as its own type."""
        wants_context = takes_context(function, hints_of(function, {}))

        def arguments(ctx: Context, change: Change[Any]) -> list[Any]:
            item = msgspec.convert(change.item, self.fields.shadow)
            typed = msgspec.structs.replace(change, item=item)
            return [ctx, typed] if wants_context else [typed]

        async def handle(ctx: Context, change: Change[Any]) -> Any:
            return await function(*arguments(ctx, change))

        def handle_on_thread(ctx: Context, change: Change[Any]) -> Any:
            return function(*arguments(ctx, change))

        return handle if is_async(function) else handle_on_thread

    # What a person or a webhook asks

    async def run(self) -> Ticket:
        """Read its pages now, such as when a webhook hints at news; return that job's ticket."""
        return await self.app.run(lambda store: run_source(store, self.name))

    async def reconcile(self, *, force: bool = False) -> Ticket:
        """Walk through all of it, and delete what it does not have any more.

        ``force``: of a walk that is held because it would delete much, delete that now.
        """
        return await self.app.run(lambda store: reconcile_source(store, self.name, force=force))

    async def reset(self, *, forget: bool = False) -> None:
        """Read it from the beginning again. ``forget``: and tell every item as created."""
        await self.app.run(lambda store: reset_source(store, self.name, forget=forget))

    async def status(self) -> SourceView:
        """Return its cursor, its lag, its last error."""
        return await self.app.run(lambda store: source_view(store, self.name))

    # A run

    async def read(self, ctx: Context) -> None:
        """Read pages from the cursor on until there are no more."""
        store = await self.app.lend()
        ends_at = monotonic() + RUN_SECONDS_MAX
        row = await self._row(store)
        asked: set[str | None] = set()
        while True:
            try:
                page = await self.page(ctx, row.cursor, asked)
            except CursorGone:
                if not self._restarts or row.cursor is None:
                    raise
                row, asked = msgspec.structs.replace(row, cursor=None), set()
                continue
            cursor = None if page.cursor is None else str(page.cursor)
            if not await self.apply(store, row, page, cursor):
                row, asked = await self._row(store), set()  # somebody else was here
                continue
            if not page.more:
                return
            if monotonic() > ends_at:
                await self.run_job.submit()
                return
            row = await self._row(store)

    async def page(self, ctx: Context, cursor: str | None, asked: set[str | None]) -> Page[Any]:
        """Fetch the page after a cursor. Refuses one that cannot be, or leads back."""
        asked.add(cursor)
        page = await self(*([ctx, cursor] if self._has_context else [cursor]))
        check_page(page)
        after = None if page.cursor is None else str(page.cursor)
        if page.more and after in asked:
            raise SourceBroken(
                f"source {self.name!r} leads back to cursor {shown(after)}, which it was asked "
                f"with before, and says that there is more: that would never end."
            )
        if cursor is not None and after is not None and _goes_back(cursor, after):
            raise SourceBroken(
                f"the cursor of source {self.name!r} goes back from {cursor} to {after}. If the "
                f"outside system was set back: `inturn poll reset {self.name}`."
            )
        return page

    async def apply(
        self, store: Store, row: SourceRow, page: Page[Any], cursor: str | None
    ) -> bool:
        """Write a page, if nobody else has written since the row was read; say whether it was."""
        seen = [self.fields.read(item) for item in page.items]
        told, written = await self.compared(store, seen)
        if not written and cursor == row.cursor:
            return True  # nothing is new
        async with store.transaction() as t:
            if not await self.is_ours(t, row):
                return False
            now = await store.now()
            await self.write(t, written, row.number, now)
            await t.enqueue(self.jobs_of(told))
            await t.run(
                PAGE_APPLIED,
                name=self.name,
                cursor=cursor,
                items=len(seen),
                changes=len(told),
                changed_at=now if told else None,
            )
        return True

    async def compared(
        self, store: Store, seen: Sequence[Any]
    ) -> tuple[list[ShadowChange], list[Shadow]]:
        """Compare items with their shadows: what to tell, and what to write."""
        keys = _json.encode(sorted({one.key for one in seen})).decode()
        known = await store.read(SHADOWS, source=self.name, keys=keys) if seen else []
        return differences(seen, {one.key: one for one in known})

    async def is_ours(self, t: Transaction, row: SourceRow) -> bool:
        """Lock the source; say whether it is as it was when its row was read."""
        [locked] = await t.run(LOCK_SOURCE, name=self.name)
        return locked.revision == row.revision

    async def write(
        self, t: Transaction, shadows: Iterable[Shadow], number: int, now: datetime
    ) -> None:
        """Write shadows, as seen by the walk with a number."""
        rows = [WrittenShadow.of(self.name, one, number, now) for one in shadows]
        await t.run_many(WRITE_SHADOWS, rows)

    def jobs_of(self, told: Iterable[ShadowChange]) -> list[NewJob]:
        """Return a job for each change, keyed by its item."""
        job = self.change_job
        if job is None:
            return []
        return [
            job.using(key=one.shadow.key)
            .call(
                Change(
                    kind=one.kind,
                    key=one.shadow.key,
                    version=one.shadow.version,
                    item=msgspec.json.decode(one.shadow.item),
                )
            )
            .new
            for one in told
        ]

    async def _row(self, store: Store) -> SourceRow:
        [row] = await store.read(SOURCE, name=self.name)
        return row


def _goes_back(before: str, after: str) -> bool:
    return before.isdecimal() and after.isdecimal() and int(after) < int(before)

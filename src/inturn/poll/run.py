"""A run of a source: page after page, applied in one transaction: shadows, jobs, cursor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from time import monotonic
from typing import Any

import msgspec

from inturn.model.admissible import shown
from inturn.model.job import NewJob
from inturn.poll.page import (
    Change,
    CursorGone,
    Page,
    Shadow,
    ShadowChange,
    SourceBroken,
    check_page,
    differences,
)
from inturn.poll.source import Source
from inturn.poll.source_rows import (
    LOCK_SOURCE,
    SHADOWS,
    SOURCE,
    WRITE_SHADOWS,
    SourceRow,
    write_source,
)
from inturn.poll.sources import run_source
from inturn.queue.context import Context
from inturn.store.store import Store
from inturn.store.transaction import Transaction

RUN_SECONDS_MAX = 20.0
"""After so long a run hands over to another: a long catch-up holds up no worker that is to stop."""

PAGES_ITEMS_MAX, PAGES_CHARS_MAX, PAGES_SECONDS_MAX = 2_000, 4_000_000, 1.0
"""How many items are applied together, how long they are, and how long they are waited for."""

_json = msgspec.json.Encoder()


class Pages(msgspec.Struct):
    """Some pages in a row, to be applied together: one transaction for many small pages."""

    cursor: str | None
    seen: list[Shadow] = []
    count: int = 0
    more: bool = True
    error: Exception | None = None
    """Why there is no further page. Those before it are applied all the same."""


async def read(source: Source, ctx: Context) -> None:
    """Read pages from the cursor on until there are no more."""
    store = await source.app.lend()
    ends_at = monotonic() + RUN_SECONDS_MAX
    row = await row_of(source, store)
    asked: set[str | None] = set()
    while True:
        pages = await fetch_some(source, ctx, row.cursor, asked)
        if pages.count and not await apply(source, store, row, pages):
            row, asked = await row_of(source, store), set()  # somebody else was here
            continue
        if isinstance(pages.error, CursorGone) and source.restarts and pages.cursor is not None:
            row = msgspec.structs.replace(await row_of(source, store), cursor=None)
            asked = set()
            continue
        if pages.error is not None:
            raise pages.error
        if not pages.more:
            return
        row = await row_of(source, store)
        if monotonic() > ends_at:
            await run_source(store, source.name)
            return


async def fetch_some(
    source: Source, ctx: Context, cursor: str | None, asked: set[str | None]
) -> Pages:
    """Fetch pages from a cursor on, for a moment or until they are many."""
    pages, chars, ends_at = Pages(cursor), 0, monotonic() + PAGES_SECONDS_MAX
    while pages.more and monotonic() < ends_at:
        if len(pages.seen) >= PAGES_ITEMS_MAX or chars >= PAGES_CHARS_MAX:
            break
        try:
            page = await fetch(source, ctx, pages.cursor, asked)
            seen = [source.fields.read(item) for item in page.items]
        except Exception as error:
            pages.error = error
            break
        pages.seen += seen
        chars += sum(len(one.item) for one in seen)
        pages.cursor = pages.cursor if page.cursor is None else str(page.cursor)
        pages.count, pages.more = pages.count + 1, page.more
    return pages


async def fetch(
    source: Source, ctx: Context, cursor: str | None, asked: set[str | None]
) -> Page[Any]:
    """Fetch the page after a cursor. Refuses one that cannot be, or leads back."""
    asked.add(cursor)
    page = await source(*([ctx, cursor] if source.has_context else [cursor]))
    check_page(page)
    after = None if page.cursor is None else str(page.cursor)
    if page.more and after in asked:
        raise SourceBroken(
            f"source {source.name!r} leads back to cursor {shown(after)}, which it was asked "
            f"with before, and says that there is more: that would never end."
        )
    if cursor is not None and after is not None and _goes_back(cursor, after):
        raise SourceBroken(
            f"the cursor of source {source.name!r} goes back from {cursor} to {after}. If the "
            f"outside system was set back: `inturn poll reset {source.name}`."
        )
    return page


async def apply(source: Source, store: Store, row: SourceRow, pages: Pages) -> bool:
    """Write pages, if nobody else has written since the row was read; say whether they were.

    A page without a cursor leaves the cursor where it was.
    """
    changes, written = await compared(source, store, pages.seen)
    if not written and pages.cursor == row.cursor:
        return True  # nothing is new
    async with store.transaction() as t:
        if not await lock_if_unchanged(source, t, row):
            return False
        now = await store.now()
        await write(source, t, written, row.walk, now)
        await t.enqueue(jobs_of(source, changes))
        await write_source(
            t,
            row,
            cursor=pages.cursor,
            pages=row.pages + pages.count,
            changes=row.changes + len(changes),
            changed_at=now if changes else row.changed_at,
            succeeded_at=row.succeeded_at if pages.more else now,
        )
    return True


async def compared(
    source: Source, store: Store, seen: Sequence[Shadow]
) -> tuple[list[ShadowChange], list[Shadow]]:
    """Compare items with their shadows: what to tell, and what to write."""
    keys = _json.encode(sorted({one.key for one in seen})).decode()
    known = await store.read(SHADOWS, source=source.name, keys=keys) if seen else []
    return differences(seen, {one.key: one for one in known})


async def lock_if_unchanged(source: Source, t: Transaction, row: SourceRow) -> bool:
    """Lock the source; say whether it is as it was when its row was read."""
    [locked] = await t.run(LOCK_SOURCE, name=source.name)
    return locked.revision == row.revision


async def write(
    source: Source, t: Transaction, shadows: Sequence[Shadow], walk: int, now: datetime
) -> None:
    """Write shadows, as seen by the walk with a number."""
    given = {"source": source.name, "walk": walk, "changed_at": now}
    await t.run(WRITE_SHADOWS, shadows=shadows, **given)


def jobs_of(source: Source, changes: Iterable[ShadowChange]) -> list[NewJob]:
    """Return a job for each change, keyed by its item."""
    job = source.change_job
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
        for one in changes
    ]


async def row_of(source: Source, store: Store) -> SourceRow:
    """Return a source as the store has it now."""
    [row] = await store.read(SOURCE, name=source.name)
    return row


def _goes_back(before: str, after: str) -> bool:
    return before.isdecimal() and after.isdecimal() and int(after) < int(before)

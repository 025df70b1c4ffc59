"""A run of a source: page after page, applied in one transaction: shadows, jobs, cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from time import monotonic
from typing import TypeVar

import msgspec

from inturn.model.admissible import shown
from inturn.model.errors import QueueFull
from inturn.model.job import NewJob
from inturn.poll.page import (
    CursorGone,
    Shadow,
    ShadowChange,
    SourceBroken,
    check_page,
    differences,
)
from inturn.poll.source import Source
from inturn.poll.source_rows import (
    DROP_SHADOWS,
    LOCK_SOURCE,
    SHADOWS,
    SOURCE,
    SOURCE_SUCCEEDED,
    WRITE_SHADOWS,
    SourceRow,
    write_source,
)
from inturn.poll.sources import reset_source, run_source
from inturn.queue.context import Context
from inturn.store.store import Store
from inturn.store.transaction import Transaction

RUN_SECONDS_MAX = 20.0
"""After so long a run hands over to another: a long catch-up holds up no worker that is to stop."""

PAGES_ITEMS_MAX, PAGES_CHARS_MAX, PAGES_SECONDS_MAX = 2_000, 4_000_000, 1.0
"""How many items are applied together, how long they are, and how long they are waited for."""

SUCCESS_SECONDS = 60.0
"""A source that has nothing new notes its success so often at most."""

First = TypeVar("First")
Second = TypeVar("Second")

_json = msgspec.json.Encoder()


class FetchedPage(msgspec.Struct):
    """A page that can be applied, and a digest of it if there is more."""

    items: list[Shadow]
    cursor: str | None
    more: bool
    digest: str | None


class Asked(msgspec.Struct):
    """The cursors that were asked for and the last page's digest, to notice what never ends."""

    digest: str | None = None
    cursors: set[str | None] = set()


async def read(source: Source, ctx: Context) -> None:
    """Read pages from the cursor on until there are no more.

    The next pages are fetched while the last ones are written.
    """
    store = await source.app.lend()
    ends_at = monotonic() + RUN_SECONDS_MAX
    row = await row_of(source, store)
    may_restart, asked = source.restarts, Asked(row.page_digest)
    pages, error = await fetch_some(source, ctx, row.cursor, asked)
    while True:
        if error is None and pages[-1].more and monotonic() <= ends_at:
            applied, fetched = await _both(
                apply(source, store, row, pages),
                fetch_some(source, ctx, pages[-1].cursor, asked),
            )
            if applied is not None:
                row, (pages, error) = applied, fetched
                continue
        else:
            applied = await apply(source, store, row, pages) if pages else row
        if applied is None:  # somebody else was here
            row = await row_of(source, store)
        elif isinstance(error, CursorGone) and may_restart and applied.cursor is not None:
            await reset_source(store, source.name)
            row, may_restart = await row_of(source, store), False
        elif error is not None:
            raise error
        elif pages[-1].more:
            await run_source(store, source.name)
            return
        else:
            await _note_success(store, applied)
            return
        asked = Asked(row.page_digest)
        pages, error = await fetch_some(source, ctx, row.cursor, asked)


async def _both(first: Awaitable[First], second: Awaitable[Second]) -> tuple[First, Second]:
    """Wait for both, also if one fails: no page is being fetched when a run has ended."""
    one, other = await asyncio.gather(first, second, return_exceptions=True)
    for found in (one, other):
        if isinstance(found, BaseException):
            raise found
    return one, other  # type: ignore[return-value]  # neither is an error


async def _note_success(store: Store, row: SourceRow) -> None:
    now = await store.now()
    if row.succeeded_at is None or now - row.succeeded_at >= timedelta(seconds=SUCCESS_SECONDS):
        async with store.transaction() as t:
            await t.run(SOURCE_SUCCEEDED, name=row.name, now=now)


async def fetch_some(
    source: Source, ctx: Context, cursor: str | None, asked: Asked
) -> tuple[list[FetchedPage], Exception | None]:
    """Fetch pages from a cursor on, for a moment or until they are many.

    Also returns why there is no further page; those before it are applied all the same.
    """
    pages: list[FetchedPage] = []
    items, chars, ends_at = 0, 0, monotonic() + PAGES_SECONDS_MAX
    while True:
        try:
            page = await fetch(source, ctx, cursor, asked)
        except Exception as error:
            return pages, error
        pages.append(page)
        cursor = page.cursor
        items += len(page.items)
        chars += sum(len(one.item) for one in page.items)
        is_much = items >= PAGES_ITEMS_MAX or chars >= PAGES_CHARS_MAX
        if is_much or not page.more or monotonic() > ends_at:
            return pages, None


async def fetch(source: Source, ctx: Context, cursor: str | None, asked: Asked) -> FetchedPage:
    """Fetch the page after a cursor. Refuses one that cannot be, or leads back.

    A page without a cursor leaves the cursor where it was.
    """
    asked.cursors.add(cursor)
    page = await source(*([ctx, cursor] if source.has_context else [cursor]))
    check_page(page)
    after = cursor if page.cursor is None else str(page.cursor)
    if page.more and after in asked.cursors:
        raise SourceBroken(
            f"source {source.name!r} leads back to cursor {shown(after)}, which it was asked "
            f"with before, and says that there is more: that would never end."
        )
    if cursor is not None and after is not None and _goes_back(cursor, after):
        raise SourceBroken(
            f"the cursor of source {source.name!r} goes back from {cursor} to {after}. If the "
            f"outside system was set back: `inturn poll reset {source.name}`."
        )
    items = [source.fields.read(item) for item in page.items]
    found = FetchedPage(items, after, page.more, _digest(items) if page.more and items else None)
    if found.digest is not None and found.digest == asked.digest:
        raise SourceBroken(
            f"source {source.name!r} gives the same page for cursor {shown(cursor)} as for the one "
            f"before, and says that there is more: that would never end. Does it use its cursor?"
        )
    asked.digest = found.digest
    return found


def _digest(items: Iterable[Shadow]) -> str:
    text = _json.encode([(one.key, one.version, one.deleted) for one in items])
    return blake2b(text, digest_size=16).hexdigest()


async def apply(
    source: Source, store: Store, row: SourceRow, pages: Sequence[FetchedPage]
) -> SourceRow | None:
    """Write pages and return the row as it is then; None if somebody else wrote since it was read.

    A queue that has no room for the changes of all these pages may take some of them.
    """
    try:
        return await _apply_together(source, store, row, pages)
    except QueueFull:
        if len(pages) == 1:
            raise
    applied: SourceRow | None = row
    for page in pages:
        if applied is not None:
            applied = await _apply_together(source, store, applied, [page])
    return applied


async def _apply_together(
    source: Source, store: Store, row: SourceRow, pages: Sequence[FetchedPage]
) -> SourceRow | None:
    """Write pages in one transaction."""
    changes, written = await compared(source, store, [one for page in pages for one in page.items])
    last = pages[-1]
    if not written and last.cursor == row.cursor:
        return row  # nothing is new
    async with store.transaction() as t:
        if not await lock_if_unchanged(source, t, row):
            return None
        now = await store.now()
        await write(source, t, written, row.walk, now)
        await t.enqueue(jobs_of(source, changes))
        return await write_source(
            t,
            row,
            cursor=last.cursor,
            page_digest=last.digest,
            pages=row.pages + len(pages),
            changes=row.changes + len(changes),
            changed_at=now if changes else row.changed_at,
        )


async def compared(
    source: Source, store: Store, seen: Sequence[Shadow]
) -> tuple[list[ShadowChange], list[Shadow]]:
    """Compare items with their shadows: what to tell, and what to write."""
    keys = sorted({one.key for one in seen})
    found = await store.read(SHADOWS, source=source.name, keys=keys) if keys else []
    known = {one.key: one for one in found}
    changes, written = differences(seen, known)
    if source.hard_deletes:  # of what is deleted there is nothing to keep, only to drop
        written = [one for one in written if not one.deleted or one.key in known]
    return changes, written


async def lock_if_unchanged(source: Source, t: Transaction, row: SourceRow) -> bool:
    """Lock the source; say whether it is as it was when its row was read."""
    [locked] = await t.run(LOCK_SOURCE, name=source.name)
    return locked.revision == row.revision


async def write(
    source: Source, t: Transaction, shadows: Sequence[Shadow], walk: int, now: datetime
) -> None:
    """Write shadows, as seen by the walk with a number; with ``hard_deletes``, drop the deleted."""
    dropped = [one.key for one in shadows if one.deleted] if source.hard_deletes else []
    if dropped:
        await t.run(DROP_SHADOWS, source=source.name, keys=dropped)
        shadows = [one for one in shadows if not one.deleted]
    given = {"source": source.name, "walk": walk, "changed_at": now}
    await t.run(WRITE_SHADOWS, shadows=shadows, **given)


def jobs_of(source: Source, changes: Iterable[ShadowChange]) -> list[NewJob]:
    """Return a job for each change, keyed by its item.

    An item is told as the store has it. One that the shadow's type of today cannot read fails in
    its own job, and holds up no other.
    """
    job = source.change_job
    if job is None:
        return []
    return [
        NewJob(
            kind=job.kind,
            queue=job.options.queue,
            key=one.shadow.key,
            payload=_payload(one),
            attempts_max=job.retry.attempts_max,
            timeout_seconds=job.timeout,
            unsent=True,
        )
        for one in changes
    ]


def _payload(one: ShadowChange) -> str:
    item = msgspec.Raw(one.shadow.item.encode())
    told = {"kind": one.kind, "key": one.shadow.key, "version": one.shadow.version, "item": item}
    return _json.encode({"change": told}).decode()


async def row_of(source: Source, store: Store) -> SourceRow:
    """Return a source as the store has it now."""
    [row] = await store.read(SOURCE, name=source.name)
    return row


def _goes_back(before: str, after: str) -> bool:
    return before.isdecimal() and after.isdecimal() and int(after) < int(before)

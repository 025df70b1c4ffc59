"""Reconcile: walk through a whole source, and delete what it does not have any more.

For sources that do not say what was deleted. The walk is stored, page by page; what it has not seen
is deleted only after its last page, and only if that is not suspiciously much.
"""

from __future__ import annotations

from time import monotonic

import msgspec

from inturn.poll.page import ChangeKind, CursorGone, Shadow, ShadowChange
from inturn.poll.run import (
    RUN_SECONDS_MAX,
    compared,
    fetch,
    jobs_of,
    lock_if_unchanged,
    row_of,
    write,
)
from inturn.poll.source import Source
from inturn.poll.source_rows import (
    COUNT_SHADOWS,
    DROP_SHADOWS,
    MARK_SHADOWS,
    MISSING_SHADOWS,
    SourceRow,
    WalkState,
    write_source,
)
from inturn.poll.sources import submit_run
from inturn.queue.context import Context
from inturn.store.store import Store
from inturn.store.transaction import Transaction

_json = msgspec.json.Encoder()


async def reconcile(source: Source, ctx: Context, *, force: bool) -> None:
    """Go on with the walk that is under way, or begin one; then sweep.

    A walk that is held goes on only with ``force``. Where somebody else has written, its page is
    fetched again.
    """
    store = await source.app.lend()
    asked: set[str | None] = set()
    ends_at = monotonic() + RUN_SECONDS_MAX
    while True:
        row = await row_of(source, store)
        if monotonic() > ends_at and row.walk_state in (WalkState.WALKING, WalkState.SWEEPING):
            await submit_run(store, row, reconcile=True, force=force)
            return
        match row.walk_state:
            case WalkState.WALKING:
                await _walk_a_page(source, ctx, store, row, asked)
            case WalkState.SWEEPING:
                if await _sweep_some(source, store, row):
                    return
            case WalkState.HELD if force:
                async with store.transaction() as t:
                    if await lock_if_unchanged(source, t, row):
                        await write_source(t, row, walk_state=WalkState.SWEEPING)
            case WalkState.HELD if asked:
                return
            case _:
                asked = set()
                await _begin(source, store, row)


async def _begin(source: Source, store: Store, row: SourceRow) -> None:
    async with store.transaction() as t:
        if await lock_if_unchanged(source, t, row):
            begun = WalkState.WALKING
            await write_source(
                t, row, walk=row.walk + 1, walk_state=begun, walk_cursor=None, walk_swept=0
            )


async def _walk_a_page(
    source: Source, ctx: Context, store: Store, row: SourceRow, asked: set[str | None]
) -> None:
    try:
        page = await fetch(source, ctx, row.walk_cursor, asked)
    except CursorGone:
        if row.walk_cursor is None:
            raise
        asked.clear()
        await _begin(source, store, row)
        return
    seen = [source.fields.read(item) for item in page.items]
    changes, written = await compared(source, store, seen)
    there = _json.encode(sorted({one.key for one in seen if not one.deleted})).decode()
    async with store.transaction() as t:
        if not await lock_if_unchanged(source, t, row):
            return
        now = await store.now()
        await write(source, t, written, row.walk, now)
        await t.run(MARK_SHADOWS, source=source.name, keys=there, walk=row.walk)
        await t.enqueue(jobs_of(source, changes))
        state, missing = WalkState.WALKING, 0
        if not page.more:
            state, missing = await _verdict(source, t, row)
        await write_source(
            t,
            row,
            pages=row.pages + 1,
            changes=row.changes + len(changes),
            changed_at=now if changes else row.changed_at,
            walk_state=state,
            walk_cursor=None if page.cursor is None else str(page.cursor),
            walk_missing=missing,
        )


async def _verdict(source: Source, t: Transaction, row: SourceRow) -> tuple[WalkState, int]:
    """Decide, after the last page, whether what was not seen may be deleted."""
    [found] = await t.run(COUNT_SHADOWS, source=source.name, walk=row.walk)
    allowed = min(source.sweep_max, found.items * source.sweep_percent / 100)
    is_much = found.missing > allowed
    return WalkState.HELD if is_much else WalkState.SWEEPING, found.missing


async def _sweep_some(source: Source, store: Store, row: SourceRow) -> bool:
    """Delete up to 1,000 items that the walk has not seen; say whether it has ended."""
    async with store.transaction() as t:
        if not await lock_if_unchanged(source, t, row):
            return False
        now = await store.now()
        gone = await t.run(MISSING_SHADOWS, source=source.name, walk=row.walk)
        shadows = [Shadow(one.key, one.version, True, one.item) for one in gone]
        if source.hard_deletes:
            keys = _json.encode([one.key for one in shadows]).decode()
            await t.run(DROP_SHADOWS, source=source.name, keys=keys)
        else:
            await write(source, t, shadows, row.walk, now)
        changes = [ShadowChange(ChangeKind.DELETED, one) for one in shadows]
        await t.enqueue(jobs_of(source, changes))
        if gone:
            await write_source(
                t,
                row,
                changes=row.changes + len(gone),
                changed_at=now,
                walk_swept=row.walk_swept + len(gone),
            )
        else:
            await write_source(t, row, walk_state=WalkState.DONE, walk_ended_at=now)
    return not gone

"""Reconcile: walk through a whole source, and delete what it does not have any more.

For sources that do not say what was deleted. The walk is stored, page by page; what it has not seen
is deleted only after its last page, and only if that is not suspiciously much.
"""

from __future__ import annotations

from time import monotonic

import msgspec

from inturn.poll.page import ANY_IS_NEWER, ChangeKind, CursorGone, ShadowChange
from inturn.poll.run import (
    RUN_SECONDS_MAX,
    Asked,
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


async def reconcile(source: Source, ctx: Context, *, forced: int) -> None:
    """Go on with the walk that is under way, or begin one; then sweep.

    ``forced`` is the number of a held walk that a person lets go on, and 0 otherwise. Where
    somebody else has written, its page is fetched again. A walk whose cursor is gone begins anew,
    once.
    """
    store = await source.app.lend()
    asked = Asked()
    may_begin, may_begin_anew = not forced, True
    ends_at = monotonic() + RUN_SECONDS_MAX
    while True:
        row = await row_of(source, store)
        if monotonic() > ends_at and row.walk_state in (WalkState.WALKING, WalkState.SWEEPING):
            await submit_run(store, row, reconcile=True)
            return
        match row.walk_state:
            case WalkState.WALKING:
                may_begin = False
                try:
                    await _walk_a_page(source, ctx, store, row, asked)
                except CursorGone:
                    if row.walk_cursor is None or not may_begin_anew:
                        raise
                    may_begin_anew, asked = False, Asked()
                    await _begin(source, store, row)
            case WalkState.SWEEPING:
                if await _sweep_some(source, store, row):
                    return
            case WalkState.HELD if row.walk == forced:
                async with store.transaction() as t:
                    if await lock_if_unchanged(source, t, row):
                        await write_source(t, row, walk_state=WalkState.SWEEPING)
            case _ if may_begin:
                await _begin(source, store, row)
            case _:
                return


async def _begin(source: Source, store: Store, row: SourceRow) -> None:
    async with store.transaction() as t:
        if await lock_if_unchanged(source, t, row):
            await write_source(
                t,
                row,
                walk=row.walk + 1,
                walk_state=WalkState.WALKING,
                walk_cursor=None,
                walk_swept=0,
            )


async def _walk_a_page(
    source: Source, ctx: Context, store: Store, row: SourceRow, asked: Asked
) -> None:
    page = await fetch(source, ctx, row.walk_cursor, asked)
    changes, written = await compared(source, store, page.items)
    async with store.transaction() as t:
        if not await lock_if_unchanged(source, t, row):
            return
        now = await store.now()
        await write(source, t, written, row.walk, now)
        there = sorted({one.key for one in page.items if not one.deleted})
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
            walk_cursor=page.cursor,
            walk_missing=missing,
        )


async def _verdict(source: Source, t: Transaction, row: SourceRow) -> tuple[WalkState, int]:
    """Decide, after the last page, whether what was not seen may be deleted."""
    [found] = await t.run(COUNT_SHADOWS, source=source.name, walk=row.walk)
    allowed = min(source.sweep_max, found.items * source.sweep_percent / 100)
    is_much = found.missing > allowed
    return WalkState.HELD if is_much else WalkState.SWEEPING, found.missing


async def _sweep_some(source: Source, store: Store, row: SourceRow) -> bool:
    """Delete up to 1,000 items that the walk has not seen; say whether it has ended.

    One that comes back is created again, whatever version it has then.
    """
    async with store.transaction() as t:
        if not await lock_if_unchanged(source, t, row):
            return False
        now = await store.now()
        missing = await t.run(MISSING_SHADOWS, source=source.name, walk=row.walk)
        gone = [msgspec.structs.replace(one, deleted=True) for one in missing]
        swept = [msgspec.structs.replace(one, version=ANY_IS_NEWER) for one in gone]
        await write(source, t, swept, row.walk, now)
        await t.enqueue(jobs_of(source, [ShadowChange(ChangeKind.DELETED, one) for one in gone]))
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

"""Reconcile: walk through a whole source, and delete what it does not have any more.

For sources that do not say what was deleted. The walk is stored, page by page; what it has not seen
is deleted only after its last page, and only if that is not suspiciously much.
"""

from __future__ import annotations

from datetime import datetime
from time import monotonic
from typing import Any

import msgspec

from inturn.poll.page import ChangeKind, CursorGone, Shadow, ShadowChange
from inturn.poll.run import (
    RUN_SECONDS_MAX,
    compared,
    fetch,
    is_ours,
    jobs_of,
    row_of,
    write,
)
from inturn.poll.source import Source
from inturn.poll.source_rows import (
    COUNT_SHADOWS,
    DROP_SHADOWS,
    MARK_SHADOWS,
    MISSING_SHADOWS,
    PASS_MOVED,
    PassState,
    SourceRow,
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
        if monotonic() > ends_at and row.pass_state in (PassState.WALKING, PassState.SWEEPING):
            await submit_run(store, row, reconcile=True)
            return
        match row.pass_state:
            case PassState.WALKING:
                await _walk_a_page(source, ctx, store, row, asked)
            case PassState.SWEEPING:
                if await _sweep_some(source, store, row):
                    return
            case PassState.HELD if force:
                await _move(source, store, row, pass_state=PassState.SWEEPING)
            case PassState.HELD if asked:
                return
            case _:
                asked = set()
                await _begin(source, store, row)


async def _begin(source: Source, store: Store, row: SourceRow) -> None:
    await _move(
        source,
        store,
        row,
        number=row.number + 1,
        pass_state=PassState.WALKING,
        pass_cursor=None,
        pass_began_at=await store.now(),
        pass_ended_at=None,
        pass_swept=0,
        pass_missing=0,
    )


async def _walk_a_page(
    source: Source, ctx: Context, store: Store, row: SourceRow, asked: set[str | None]
) -> None:
    try:
        page = await fetch(source, ctx, row.pass_cursor, asked)
    except CursorGone:
        if row.pass_cursor is None:
            raise
        asked.clear()
        await _begin(source, store, row)
        return
    seen = [source.fields.read(item) for item in page.items]
    told, written = await compared(source, store, seen)
    there = _json.encode(sorted({one.key for one in seen if not one.deleted})).decode()
    async with store.transaction() as t:
        if not await is_ours(source, t, row):
            return
        now = await store.now()
        await write(source, t, written, row.number, now)
        await t.run(MARK_SHADOWS, source=source.name, keys=there, **{"pass": row.number})
        await t.enqueue(jobs_of(source, told))
        state, missing = PassState.WALKING, 0
        if not page.more:
            state, missing = await _verdict(source, t, row)
        cursor = None if page.cursor is None else str(page.cursor)
        await _moved(
            t,
            row,
            now if told else None,
            pages=1,
            items=len(seen),
            changes=len(told),
            pass_state=state,
            pass_cursor=cursor,
            pass_missing=missing,
        )


async def _verdict(source: Source, t: Transaction, row: SourceRow) -> tuple[PassState, int]:
    """Decide, after the last page, whether what was not seen may be deleted."""
    [found] = await t.run(COUNT_SHADOWS, source=source.name, **{"pass": row.number})
    allowed = min(source.sweep_max, found.items * source.sweep_percent / 100)
    is_much = found.missing > allowed
    return PassState.HELD if is_much else PassState.SWEEPING, found.missing


async def _sweep_some(source: Source, store: Store, row: SourceRow) -> bool:
    """Delete up to 1,000 items that the walk has not seen; say whether it has ended."""
    async with store.transaction() as t:
        if not await is_ours(source, t, row):
            return False
        now = await store.now()
        gone = await t.run(MISSING_SHADOWS, source=source.name, **{"pass": row.number})
        shadows = [Shadow(one.key, one.version, True, one.item) for one in gone]
        if source.hard_deletes:
            keys = _json.encode([one.key for one in shadows]).decode()
            await t.run(DROP_SHADOWS, source=source.name, keys=keys)
        else:
            await write(source, t, shadows, row.number, now)
        told = [ShadowChange(ChangeKind.DELETED, one) for one in shadows]
        await t.enqueue(jobs_of(source, told))
        swept = row.pass_swept + len(shadows)
        if gone:
            await _moved(t, row, now, changes=len(told), pass_swept=swept)
        else:
            await _moved(t, row, None, pass_state=PassState.DONE, pass_ended_at=now)
    return not gone


async def _move(source: Source, store: Store, row: SourceRow, **changes: Any) -> None:
    async with store.transaction() as t:
        if await is_ours(source, t, row):
            await _moved(t, row, None, **changes)


async def _moved(
    t: Transaction,
    row: SourceRow,
    changed_at: datetime | None,
    *,
    pages: int = 0,
    items: int = 0,
    changes: int = 0,
    **what: Any,
) -> None:
    """Write how far the walk is."""
    row = msgspec.structs.replace(row, **what)
    await t.run(
        PASS_MOVED,
        name=row.name,
        pages=pages,
        items=items,
        changes=changes,
        changed_at=changed_at,
        state=row.pass_state,
        cursor=row.pass_cursor,
        began_at=row.pass_began_at,
        ended_at=row.pass_ended_at,
        swept=row.pass_swept,
        missing=row.pass_missing,
        **{"pass": row.number},
    )

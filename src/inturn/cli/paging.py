"""Lists in pages: read as they are printed, and never more of them than asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from inturn.model import bounds
from inturn.model.errors import UnknownQueue
from inturn.model.lane import QueueStatus
from inturn.store.protocol import Page, Store

Row = TypeVar("Row")
Read = Callable[[str | None, int], Awaitable[Page[Row]]]
"""Reads a page: from this cursor on, at most so many rows."""


async def pages(
    read: Read[Row],
    *,
    cursor: str | None,
    limit: int,
    wanted: Callable[[Row], bool] = lambda row: True,
) -> AsyncIterator[Page[Row]]:
    """Yield pages with up to ``limit`` wanted rows in all; each page's cursor goes on behind it."""
    while limit > 0:
        page = await read(cursor, min(limit, bounds.PAGE_ROWS_MAX))
        cursor = page.cursor
        rows = tuple(row for row in page.rows if wanted(row))
        limit -= len(rows)
        yield Page(rows=rows, cursor=cursor)
        if cursor is None:
            return


async def insist_on_queue(store: Store, queue: str) -> QueueStatus:
    """Return a queue; refuse the name of one that is not there, which is most likely mistyped."""
    for status in await store.queues():
        if status.name == queue:
            return status
    raise UnknownQueue(queue)

"""Work that is not cut off in the middle when whoever awaits it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def uncut(working: asyncio.Task[None], hurry: Callable[[], None]) -> None:
    """Await something; when this is cancelled, ``hurry`` it, and be cancelled when it has ended.

    A store that was asked for jobs may have given them, and what was told it may know already: who
    does not wait for the answer does not know what it holds.
    """
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        hurry()
        await working
        raise


async def seen_through(work: Coroutine[Any, Any, None], *, seconds_max: float) -> None:
    """Await something; when this is cancelled, be so when it has ended, or a while has passed.

    Cancelled once more, this waits for nothing: the loop may be ending.
    """
    working = asyncio.create_task(work)
    working.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        try:
            await asyncio.wait([working], timeout=seconds_max)
        finally:
            working.cancel()
        raise

"""Work that is not cut off in the middle when whoever awaits it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


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

"""What goes on beside a worker's steps, for as long as those do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def beside(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Let coroutines run on this loop, and end them."""
    running = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for one in running:
            one.cancel()
        await asyncio.wait(running)

"""The app of ``jobs`` with a duty that one worker alone does, and writes when."""

from __future__ import annotations

import asyncio
from datetime import datetime

from inturn.store.store import Store
from tests.processes.jobs import app, effect

__all__ = ["app"]


async def sweep(_store: Store, _held_until: datetime) -> None:
    effect("sweep-began", "sweep", 0)
    await asyncio.sleep(0.05)
    effect("sweep-ended", "sweep", 0)


app.duty("sweep", sweep, every_seconds=0.05)

"""Reads on SQLite: a quick one does not wait behind a long one."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

from inturn.model.job import NewJob
from inturn.store.sqlite.store import SqliteStore


async def test_a_quick_read_does_not_wait_behind_long_ones(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "work.db"))
    await store.open()
    [ticket] = await store.enqueue([NewJob(kind="k")])
    ended = threading.Event()

    def read_long(connection: sqlite3.Connection, now: int) -> bool:
        return ended.wait(60)

    long = [asyncio.create_task(store._read(read_long)) for _ in range(2)]
    try:
        async with asyncio.timeout(30):
            assert (await store.job(ticket.id)).job.id == ticket.id
        assert not any(task.done() for task in long)
    finally:
        ended.set()
        await asyncio.gather(*long)
        await store.close()

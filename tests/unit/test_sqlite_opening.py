"""Opening and closing a SQLite store that nobody waits for any more: no connection is left open."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from inturn.store.sqlite import connection
from inturn.store.sqlite.store import SqliteStore

SECONDS_MAX = 60.0


class Connections:
    """Every connection that is opened, and how many of them are."""

    def __init__(self) -> None:
        self.opened: list[sqlite3.Connection] = []
        self.opens_at: int | None = None  # which of them is held up until it may open
        self.may_open = threading.Event()
        self.opening = threading.Event()

    def connect(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        if len(self.opened) == self.opens_at:
            self.opening.set()
            assert self.may_open.wait(SECONDS_MAX)
        self.opened.append(sqlite3.connect(*arguments, **options))
        return self.opened[-1]

    @property
    def left(self) -> int:
        return sum(_is_open(one) for one in self.opened)


def _is_open(one: sqlite3.Connection) -> bool:
    try:
        one.execute("select 1")
    except sqlite3.ProgrammingError:
        return False
    return True


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    found = Connections()

    class Sqlite3:
        connect = found.connect

        def __getattr__(self, name: str) -> Any:
            return getattr(sqlite3, name)

    monkeypatch.setattr(connection, "sqlite3", Sqlite3())
    return found


@pytest.mark.parametrize("opens_at", [0, 1], ids=["the writer", "the reader"])
@pytest.mark.parametrize("moment", ["while it opens", "when it is open"])
async def test_an_opening_that_is_cancelled_leaves_no_connection(
    connections: Connections, tmp_path: Path, opens_at: int, moment: str
) -> None:
    connections.opens_at = opens_at
    store = SqliteStore(str(tmp_path / "work.db"))
    opening = asyncio.create_task(store.open())
    await asyncio.to_thread(connections.opening.wait, SECONDS_MAX)
    if moment == "while it opens":
        opening.cancel()
        await asyncio.sleep(0)
        connections.may_open.set()
    else:
        loop = asyncio.get_running_loop()
        connections.may_open.set()
        while len(connections.opened) == opens_at:
            pass  # the loop does not turn, so it has not heard of it
        loop.call_soon(opening.cancel)
    with pytest.raises(asyncio.CancelledError):
        await opening
    await asyncio.get_running_loop().shutdown_default_executor()
    assert len(connections.opened) == opens_at + 1
    assert connections.left == 0


async def test_a_close_that_is_cancelled_closes_every_connection(
    connections: Connections, tmp_path: Path
) -> None:
    store = SqliteStore(str(tmp_path / "work.db"))
    await store.open()
    await store.queues()
    assert connections.left >= 2
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await asyncio.get_running_loop().shutdown_default_executor()
    assert connections.left == 0

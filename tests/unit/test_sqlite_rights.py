"""What the SQLite store says to a user who may not write where it is told to."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from inturn.store.sqlite.store import SqliteStore

NOBODY = 65_534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that others may look into; those that pytest makes are for this user only."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_folder_that_may_not_be_written_is_a_matter_of_rights(folder: Path) -> None:
    (folder / "readable").mkdir(mode=0o555)
    said = opened_by_another(folder / "readable" / "work.db")
    assert said.startswith("NoRights")
    assert str(folder / "readable" / "work.db") in said


def test_a_file_that_may_not_be_written_is_a_matter_of_rights(folder: Path) -> None:
    path = folder / "work.db"
    asyncio.run(SqliteStore(str(path)).migrate())
    for mode in (0o444, 0o000):
        path.chmod(mode)
        assert opened_by_another(path).startswith("NoRights")


def opened_by_another(path: Path) -> str:
    """Let a user who is not the superuser open a store, and return the error's name and text."""
    processes = multiprocessing.get_context("fork")
    heard, told = processes.Pipe(duplex=False)
    other = processes.Process(target=_open_as_nobody, args=(path, told))
    other.start()
    assert heard.poll(30)
    said: str = heard.recv()
    other.join()
    return said


def _open_as_nobody(path: Path, told: Connection) -> None:
    asyncio.run(asyncio.to_thread(int))  # load what threads need while Python may still be read
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        asyncio.run(SqliteStore(str(path)).open())
    except Exception as error:
        told.send(f"{type(error).__name__}: {error}")
    else:
        told.send("opened")

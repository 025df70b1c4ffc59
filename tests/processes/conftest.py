"""A place for worker processes on each sort of store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import empty_file, sqlite_url, url
from tests.processes.support import Place

__all__ = ["empty_file", "sqlite_url", "url"]


@pytest.fixture
def place(url: str, tmp_path: Path) -> Iterator[Place]:
    """A store with empty tables, of each sort, and a folder for effects."""
    place = Place(_quick(url), tmp_path)
    yield place
    place.close()


@pytest.fixture
def sqlite_place(sqlite_url: str, tmp_path: Path) -> Iterator[Place]:
    """The same on SQLite only, for what does not depend on the store."""
    place = Place(_quick(sqlite_url), tmp_path)
    yield place
    place.close()


def _quick(url: str) -> str:
    """Do not wait for the disk, which other tests keep busy: processes are killed, not machines."""
    return f"{url}?synchronous=normal" if url.startswith("sqlite:") else url

"""Stores to run commands on, and two ways to run them: here, and as a process of its own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inturn.store.address import connect
from tests.cli.support import Cli, Terminal


@pytest.fixture(autouse=True)
def no_store_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run in an empty folder, with no store in the environment, as wide as nobody says."""
    for name in ("INTURN_APP", "INTURN_STORE", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.setenv(name, "")  # so that what the command sets goes with the test
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "empty.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture
def sqlite_url(empty_file: Path, tmp_path: Path) -> str:
    shutil.copy(empty_file, tmp_path / "work.db")
    return f"sqlite:///{tmp_path / 'work.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """The address of a store with empty tables, of each sort."""
    name = "sqlite_url" if request.param == "sqlite" else "migrated_url"
    found: str = request.getfixturevalue(name)
    return found


@pytest.fixture
def cli(url: str, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command, run in this process on a store of each sort."""
    return Cli(url, capsys)


@pytest.fixture
def sqlite_cli(sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command, run in this process on SQLite."""
    return Cli(sqlite_url, capsys)


@pytest.fixture
def open_terminal() -> Iterator[Callable[..., Terminal]]:
    """Run the command on a terminal; takes the arguments of ``Terminal``."""
    terminals: list[Terminal] = []

    def opened(*arguments: str, **options: Any) -> Terminal:
        terminals.append(Terminal(*arguments, **options))
        return terminals[-1]

    yield opened
    for terminal in terminals:
        terminal.close()


def migrate(url: str) -> None:
    async def migrated() -> None:
        store = connect(url)
        try:
            await store.migrate()
        finally:
            await store.close()

    asyncio.run(migrated())

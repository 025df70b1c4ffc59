"""The stores that an app is tried on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from inturn.queue.app import App


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'work.db'}"
    if request.param == "memory":
        return "sqlite:///:memory:"
    found: str = request.getfixturevalue("postgres_url")
    asyncio.run(App(found).migrate())
    return found

"""A shop on every store, for the tests of the durable executor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import inturn
from tests.executor.durable_shop import Shop


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'work.db'}"
    if request.param == "memory":
        return "sqlite:///:memory:"
    found: str = request.getfixturevalue("postgres_url")
    asyncio.run(inturn.App(found).migrate())
    return found


@pytest_asyncio.fixture
async def shop(url: str) -> AsyncIterator[Shop]:
    shop = Shop(url)
    yield shop
    assert await shop.app.run(lambda store: store.check()) == []
    await shop.app.close()

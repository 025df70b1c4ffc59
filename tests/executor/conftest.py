"""A shop on every store, for the tests of the durable executor."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.executor.durable_shop import Shop


@pytest_asyncio.fixture
async def shop(url: str) -> AsyncIterator[Shop]:
    shop = Shop(url)
    yield shop
    assert await shop.app.run(lambda store: store.check()) == []
    await shop.app.close()

"""An app on a store of each sort, whose clock tests move by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import inturn
from inturn.model.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest_asyncio.fixture
async def app(url: str, clock: ManualClock) -> AsyncIterator[inturn.App]:
    async with inturn.App(url, clock=clock) as app:
        yield app

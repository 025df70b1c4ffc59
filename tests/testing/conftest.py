"""An app as users have it, whose own store nobody may touch."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from inturn.policy.retry import Reject, RetryPolicy
from inturn.queue.app import App
from inturn.queue.context import Context


class Shop:
    """Jobs declared on an app whose store does not exist, and what they have done."""

    def __init__(self, folder: Path) -> None:
        self.app = app = App(f"sqlite:///{folder / 'no such folder' / 'work.db'}")
        self.ran: list[Any] = []
        self.fails: set[Any] = set()

        @app.job(queue="mail", attempts=3, retry=RetryPolicy(base_seconds=10.0, jitter=0.0))
        async def send(to: str, copies: int = 1) -> int:
            self.ran.append(to)
            if to in self.fails:
                raise ValueError(f"no {to}")
            return copies

        @app.job(attempts=2)
        def charge(context: Context, customer: str, amount: int) -> str:
            self.ran.append((customer, amount, context.attempt))
            if customer in self.fails:
                raise Reject(f"{customer} is closed")
            send.submit_sync(f"{customer}@b.c")
            return customer.upper()

        @app.job
        async def hang() -> None:
            await asyncio.sleep(3600)

        self.send, self.charge, self.hang = send, charge, hang


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that is empty."""
    if request.param == "memory":
        return "sqlite:///:memory:"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'private.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url

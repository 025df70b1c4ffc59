"""What tests of the durable executor share: an app whose jobs keep a book, and ways to wait."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import inturn
from inturn.model.job import JobState
from inturn.policy.retry import RetryPolicy
from tests.executor.support import SECONDS_MAX

QUICK = RetryPolicy(attempts_max=3, base_seconds=0.01, jitter=0.0)


class Shop:
    """An app, its jobs, and what they have done."""

    def __init__(self, url: str) -> None:
        self.app = app = inturn.App(url)
        self.ran: dict[str, list[int]] = defaultdict(list)
        self.running: set[str] = set()
        self.fails: dict[int, int] = {}
        self.gate = asyncio.Event()
        self.waiting = False

        def begin(key: str, n: int) -> None:
            assert key not in self.running, "two jobs of one key at once"
            self.running.add(key)
            self.ran[key].append(n)

        @app.job(retry=QUICK)
        async def write(key: str, n: int) -> int:
            begin(key, n)
            await asyncio.sleep(0)
            self.running.discard(key)
            if self.fails.get(n, 0):
                self.fails[n] -= 1
                raise ConnectionError(f"{n} failed")
            return n

        @app.job(queue="threads")
        def write_slowly(key: str, n: int) -> int:
            begin(key, n)
            self.running.discard(key)
            return n

        @app.job
        async def wait() -> str:
            self.waiting = True
            await self.gate.wait()
            return "waited"

        self.write, self.write_slowly, self.wait = write, write_slowly, wait


@asynccontextmanager
async def running(shop: Shop, **options: Any) -> AsyncIterator[inturn.DurableExecutor]:
    """A durable executor that waits for nothing when the test has failed."""
    async with inturn.Executor(app=shop.app, **options) as executor:
        try:
            yield executor
        except BaseException:
            shop.gate.set()
            await executor.stop(timeout=0)
            raise
        shop.gate.set()


async def until(condition: Any) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            found = condition()
            if found is True or (asyncio.iscoroutine(found) and await found):
                return
            await asyncio.sleep(0.005)


async def depth_of(shop: Shop, depth: int) -> bool:
    page = await shop.app.run(lambda store: store.jobs(state=JobState.WAITING))
    return len(page.rows) == depth

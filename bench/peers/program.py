"""The command line of a Python peer's program; it runs in the peer's own environment."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.peers.tally import Tally, count_runs

BATCH = 1_000
PAYLOAD_BYTES = 100
WARM_SECONDS = 0.3
PAUSE_SECONDS = (0.03, 0.07)  # uneven, so as not to fall in step with something that polls
FEED_SECONDS = 0.002


class Producer(Protocol):
    """What enqueues, over a connection that is open."""

    async def one(self, number: int) -> None:
        """Enqueue one job, durably if the peer can."""
        ...

    async def many(self, numbers: Sequence[int], keys: int) -> None:
        """Enqueue jobs in their order in the peer's fastest way, with a key each if it has keys."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a peer's module has to say."""

    producer: Callable[[str], AbstractAsyncContextManager[Producer]]
    prepare: Callable[[str, int], Awaitable[None]] | None = None
    work: Callable[..., Any] | None = None  # given url and settings, and a Tally if it is async

    def run(self) -> None:
        """Do what the command line says."""
        match sys.argv[1:]:
            case ["prepare", url, keys]:
                if self.prepare is not None:
                    asyncio.run(_awaited(self.prepare(url, int(keys))))
            case ["fill", url, jobs, keys]:
                asyncio.run(self._fill(url, int(jobs), int(keys)))
            case ["submit", url, seconds, how]:
                print(json.dumps(asyncio.run(self._submit(url, float(seconds), how == "many"))))
            case ["trickle", url, jobs]:
                print(json.dumps(asyncio.run(self._trickle(url, int(jobs)))))
            case ["feed", url, waiting]:
                asyncio.run(self._feed(url, int(waiting)))
            case ["work", url, encoded] if self.work is not None:
                self._work(url, json.loads(encoded))
            case _:
                raise SystemExit(f"not a command of a peer's program: {sys.argv[1:]}")

    async def _fill(self, url: str, jobs: int, keys: int) -> None:
        async with self.producer(url) as producer:
            for numbers in batches(jobs):
                await producer.many(numbers, keys)

    async def _submit(self, url: str, seconds: float, many: bool) -> dict[str, float]:
        async with self.producer(url) as producer:
            warm = await _submit_for(producer, WARM_SECONDS, many)
            began = time.monotonic()
            jobs = await _submit_for(producer, seconds, many)
            return {"warm": warm, "jobs": jobs, "seconds": time.monotonic() - began}

    async def _trickle(self, url: str, jobs: int) -> list[int]:
        called_at = []
        async with self.producer(url) as producer:
            for number in range(jobs):
                await asyncio.sleep(random.uniform(*PAUSE_SECONDS))
                called_at.append(time.monotonic_ns())
                await producer.one(number)
        return called_at

    async def _feed(self, url: str, waiting: int) -> None:
        """Keep as many jobs waiting as were there at the beginning."""
        folder = Path(os.environ["BENCH_FOLDER"])
        batch = min(BATCH, waiting // 2)
        fed = 0
        async with self.producer(url) as producer:
            while True:
                if fed + batch <= count_runs(folder):
                    await producer.many(range(fed, fed + batch), 0)
                    fed += batch
                else:
                    await asyncio.sleep(FEED_SECONDS)

    def _work(self, url: str, settings: dict[str, Any]) -> None:
        assert self.work is not None
        if not inspect.iscoroutinefunction(self.work):
            self.work(url, settings)
            return
        uses_uvloop = settings.pop("uvloop", False)
        running = _awaited(self.work(url, settings, Tally()))
        if uses_uvloop:
            import uvloop  # type: ignore[import-not-found]

            uvloop.run(running)
        else:
            asyncio.run(running)


def batches(jobs: int) -> Iterator[range]:
    """Return the numbers of all jobs, in batches."""
    for first in range(0, jobs, BATCH):
        yield range(first, min(first + BATCH, jobs))


def note(number: int) -> str:
    """Return what makes the JSON of ``number`` and ``note`` as long as every payload is."""
    return "x" * (PAYLOAD_BYTES - len(f'{{"number":{number},"note":""}}'))


def key(number: int, keys: int) -> str:
    """Return the key of a job."""
    return f"customer-{number % keys}"


async def _submit_for(producer: Producer, seconds: float, many: bool) -> int:
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        if many:
            await producer.many(range(number, number + BATCH), 0)
            number += BATCH
        else:
            await producer.one(number)
            number += 1
    return number


async def _awaited(one: Awaitable[None]) -> None:
    await one

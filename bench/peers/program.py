"""The command line of a Python peer's program; it runs in the peer's own environment."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from bench.peers.tally import Tally

BATCH = 1_000
PAYLOAD_BYTES = 100

Fill = Callable[[str, int, int], Awaitable[None]]
Work = Callable[[str, dict[str, Any], Tally], Awaitable[None]]


def run(fill: Fill, work: Work | None = None) -> None:
    """Do what the command line says; without ``work``, workers are started in another way."""
    match sys.argv[1:]:
        case ["fill", url, jobs, keys]:
            asyncio.run(_awaited(fill(url, int(jobs), int(keys))))
        case ["work", url, encoded] if work is not None:
            settings: dict[str, Any] = json.loads(encoded)
            running = _awaited(work(url, settings, Tally()))
            if settings.pop("uvloop", False):
                import uvloop  # type: ignore[import-not-found]

                uvloop.run(running)
            else:
                asyncio.run(running)
        case _:
            raise SystemExit("fill URL JOBS KEYS, or work URL SETTINGS")


def batches(jobs: int) -> Iterator[range]:
    """Return the numbers of all jobs, in batches."""
    for first in range(0, jobs, BATCH):
        yield range(first, min(first + BATCH, jobs))


def note(number: int) -> str:
    """Return what makes the JSON of ``number`` and ``note`` as long as every payload is."""
    return "x" * (PAYLOAD_BYTES - len(f'{{"number":{number},"note":""}}'))


async def _awaited(one: Awaitable[None]) -> None:
    await one

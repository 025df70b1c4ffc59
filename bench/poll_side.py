"""One side of a benchmark of polling, in a process of its own: what came of it, as JSON.

``python -m bench.poll_side SIDE OUTSIDE STORE``: ``bare`` only fetches, ``shadow`` follows the
outside system, ``changes`` does so with a job for each change, ``idle`` finds nothing new.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

import httpx
import msgspec

import inturn
from bench.memory import resident_megabytes

IDLE_SECONDS = 10.0


class Transfer(msgspec.Struct):
    id: str
    version: int
    name: str
    status: str
    outlet: int
    lines: list[dict[str, Any]]


class Fetch:
    """Fetches pages; knows when it began, and how much memory this process had as it went on."""

    def __init__(self, outside: str) -> None:
        self._client = httpx.AsyncClient(base_url=outside)
        self.began_at, self.megabytes = 0.0, [0.0]
        self.pages = 0

    async def __call__(self, cursor: str | None) -> inturn.Page[Any]:
        self.began_at = self.began_at or time.perf_counter()
        response = await self._client.get("/items", params={"after": cursor or "0"})
        page = response.json()
        self.pages += 1
        if self.pages % 50 == 0:
            self.megabytes.append(resident_megabytes(os.getpid()))
        return inturn.Page(page["items"], str(page["version"]), more=page["more"])


async def bare(fetch: Fetch) -> None:
    page = await fetch(None)
    while page.more:
        page = await fetch(str(page.cursor))


def app_of(fetch: Fetch, store: str, every: str | None = None) -> inturn.App:
    app = inturn.App(store)
    app.source("transfers", shadow=Transfer, every=every)(fetch.__call__)
    return app


async def followed(fetch: Fetch, store: str, side: str) -> dict[str, Any]:
    app = app_of(fetch, store, "1s" if side == "idle" else None)
    source = app.sources["transfers"]
    if side == "changes":

        @source.on_change
        async def changed(change: inturn.Change[Any]) -> None:
            """Do nothing."""

    await app.migrate()
    async with app:
        await source.run()
        await inturn.Worker(app).run(until_empty=True)
        found = {"items": (await source.status()).items}
        if side == "idle":
            before, pages = await rows(app), fetch.pages
            worker = inturn.Worker(app)
            running = asyncio.create_task(worker.run())
            await asyncio.sleep(IDLE_SECONDS)
            worker.stop()
            await running
            jobs = (await (await app.lend()).jobs(kind="poll:transfers", rows_max=1_000)).rows
            found |= {"requests": fetch.pages - pages, "runs": len(jobs) - 1}
            found |= {"is_as_before": before == await rows(app)}
    return found


async def rows(app: inturn.App) -> list[Any]:
    """Return the source and its shadows as they stand in the store."""
    owner = "poll_" if app.url.startswith("sqlite") else "inturn_poll."
    async with app.transaction() as t:
        return [
            await t.execute(f"select * from {owner}source"),
            await t.execute(f"select * from {owner}shadow order by key"),
        ]


async def main(side: str, outside: str, store: str) -> None:
    fetch = Fetch(outside)
    found: dict[str, Any] = {}
    if side == "bare":
        await bare(fetch)
    else:
        found = await followed(fetch, store, side)
    seconds = time.perf_counter() - fetch.began_at
    print(json.dumps(found | {"seconds": seconds, "megabytes": fetch.megabytes[1:]}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

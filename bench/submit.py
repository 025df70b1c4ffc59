"""Submitting jobs one at a time through an app, beside rows committed one at a time."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing

import asyncpg

from bench.compare import Bench, rated
from bench.files import empty_file
from bench.loads import payload
from bench.peers.program import note
from bench.server import empty_database
from bench.table import Bar, Row
from inturn import App
from inturn.model.bounds import ATTEMPTS_DEFAULT
from inturn.model.ids import new_id

ONE_BAR, MANY_BAR = 0.7, 8
SUBMITTERS = 100
WARM_SECONDS = 0.3

ROWS = """
create table raw (
    lane bigint not null, position bigint not null, id uuid primary key, kind text not null,
    payload json not null, priority smallint not null, round integer not null,
    attempts_max smallint not null, timeout_seconds double precision,
    enqueued_at timestamptz not null)
"""

Side = Callable[[str, float], Awaitable[float]]
"""Works on the store at a URL for a number of seconds; returns jobs a second."""


def submit_postgres(bench: Bench) -> list[Row]:
    """Submit on PostgreSQL, beside single-row inserts that commit by themselves."""
    return _submit(bench, "postgres", _postgres_rows, counts=True)


def submit_sqlite(bench: Bench) -> list[Row]:
    """The same on SQLite, which is shown."""
    return _submit(bench, "sqlite", _sqlite_rows, counts=False)


def _submit(bench: Bench, store: str, raw: Side, *, counts: bool) -> list[Row]:
    sides: dict[str, Side] = {"raw rows": raw, "one submitter": _one, "100 submitters": _many}
    rates: dict[str, list[float]] = {name: [] for name in sides}
    runs = bench.sizes.submit_runs
    for run in range(runs):
        for name, side in sides.items():
            bench.say(f"{name}, run {run + 1} of {runs}")
            rates[name].append(_measure(bench, store, side))
    one = rates["one submitter"]
    return [
        rated(
            f"submit-one-{store}",
            Bar(ONE_BAR, counts=counts),
            one,
            rates["raw rows"],
            note="the reference commits the same rows one by one, into a table with a primary key",
        ),
        rated(
            f"submit-{SUBMITTERS}-{store}",
            Bar(MANY_BAR, counts=counts),
            rates["100 submitters"],
            one,
            note=f"{SUBMITTERS} submitters of one app; the reference is one submitter of ours",
        ),
    ]


def _measure(bench: Bench, store: str, side: Side) -> float:
    seconds = bench.sizes.submit_seconds
    if store == "sqlite":
        with empty_file() as path:
            return asyncio.run(_run(side, f"sqlite:///{path}", seconds))
    with empty_database(bench.server) as url:
        return asyncio.run(_run(side, url, seconds))


async def _run(side: Side, url: str, seconds: float) -> float:
    return await side(url, seconds)


async def _one(url: str, seconds: float) -> float:
    return await _submitters(url, seconds, 1)


async def _many(url: str, seconds: float) -> float:
    return await _submitters(url, seconds, SUBMITTERS)


async def _submitters(url: str, seconds: float, submitters: int) -> float:
    app = App(url)

    @app.job
    async def deliver(number: int, note: str) -> None:
        """Is only submitted."""

    await app.migrate()
    async with app:

        async def submit(until: float) -> int:
            number = 0
            while time.monotonic() < until:
                await deliver.submit(number, note(number))
                number += 1
            return number

        async def together(seconds: float) -> tuple[int, float]:
            began = time.monotonic()
            counts = await asyncio.gather(*(submit(began + seconds) for _ in range(submitters)))
            return sum(counts), time.monotonic() - began

        warm, _ = await together(WARM_SECONDS)
        accepted, took = await together(seconds)
        (queue,) = await app.run(lambda store: store.queues())
    if queue.waiting != warm + accepted:
        raise AssertionError(f"{warm + accepted} jobs were accepted, and {queue.waiting} wait")
    return accepted / took


async def _postgres_rows(url: str, seconds: float) -> float:
    connection = await asyncpg.connect(url)
    await connection.execute(ROWS)
    insert = await connection.prepare(
        "insert into raw values ($1, $2, $3, $4, $5, $6, $7, $8, $9, clock_timestamp())"
    )

    async def commit(seconds: float) -> float:
        began, number = time.monotonic(), 0
        while time.monotonic() < began + seconds:
            await insert.fetch(
                1, number, new_id(), "deliver", payload(number), 0, 0, ATTEMPTS_DEFAULT, None
            )
            number += 1
        return number / (time.monotonic() - began)

    await commit(WARM_SECONDS)
    rate = await commit(seconds)
    await connection.close()
    return rate


async def _sqlite_rows(url: str, seconds: float) -> float:
    """Commit rows on this thread: there is nothing else to do here while it waits."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as file:
        file.execute("pragma journal_mode = wal")
        file.execute("pragma synchronous = full")
        file.execute("create table raw (id blob primary key, payload text not null)")
        began, number = time.monotonic(), 0
        while time.monotonic() < began + seconds:
            file.execute("insert into raw values (?, ?)", (new_id().bytes, payload(number)))
            number += 1
        return number / (time.monotonic() - began)

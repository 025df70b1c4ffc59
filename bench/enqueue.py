"""Bulk enqueue against raw COPY into a plain table, on PostgreSQL: one connection each."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import asyncpg

from bench.clients import WARM, WARM_BATCHES
from bench.compare import Bench, in_turn, rated
from bench.loads import KIND, QUEUE, Draft, Load
from bench.server import empty_database, tidy
from bench.sides import Ours, SideName
from bench.sizes import BATCH
from bench.table import Bar, Row
from inturn.model import bounds
from inturn.model.ids import new_id

# The columns of inturn.job, so that both sides write the same bytes.
COLUMNS = (
    "lane", "position", "id", "kind", "payload", "priority", "round", "attempts_max",
    "timeout_seconds", "enqueued_at",
)  # fmt: skip

TABLE = """
create table raw_job (
    lane bigint not null,
    position bigint not null,
    id uuid primary key,
    kind text not null,
    payload json not null,
    priority smallint not null,
    round integer not null,
    attempts_max smallint not null,
    timeout_seconds double precision,
    enqueued_at timestamptz not null
)
"""


def enqueue_unkeyed(bench: Bench) -> list[Row]:
    """Enqueue jobs without keys."""
    return _enqueue(bench, Load("enqueue-unkeyed", bench.sizes.enqueue_jobs), Bar(0.6))


def enqueue_keyed(bench: Bench) -> list[Row]:
    """Enqueue jobs of a thousand keys."""
    return _enqueue(bench, Load("enqueue-1000-keys", bench.sizes.enqueue_jobs, 1_000), Bar(0.3))


def _enqueue(bench: Bench, load: Load, bar: Bar) -> list[Row]:
    batches = list(load.batches())

    def measure(side: SideName) -> float:
        with empty_database(bench.server) as url:
            return load.jobs / asyncio.run((_ours if side == "ours" else _copy)(url, load, batches))

    rates = in_turn(bench, measure)
    return [rated(load.name, bar, rates["ours"], rates["reference"], jobs=load.jobs)]


async def _ours(url: str, load: Load, batches: list[list[Draft]]) -> float:
    side = Ours(url)
    await side.create()
    await asyncio.to_thread(tidy, url)
    await side.open(1)
    try:
        for drafts in batches[:WARM_BATCHES]:
            await side.enqueue(drafts, queue=WARM)
        began = time.perf_counter()
        for drafts in batches:
            await side.enqueue(drafts)
        took = time.perf_counter() - began
        waiting = sum(queue.waiting for queue in await side.store.queues() if queue.name == QUEUE)
        if waiting != load.jobs:
            raise AssertionError(f"{load.jobs} jobs went in, and {waiting} wait")
        return took
    finally:
        await side.close()


async def _copy(url: str, load: Load, batches: list[list[Draft]]) -> float:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(TABLE)
        for drafts in batches[:WARM_BATCHES]:
            await _copy_batch(connection, load, 0, drafts)
        await connection.execute("truncate raw_job")
        began = time.perf_counter()
        for number, drafts in enumerate(batches):
            await _copy_batch(connection, load, number * BATCH, drafts)
        took = time.perf_counter() - began
        stored = await connection.fetchval("select count(*) from raw_job")
        if stored != load.jobs:
            raise AssertionError(f"{load.jobs} rows went in, and {stored} are there")
        return took
    finally:
        await connection.close()


async def _copy_batch(
    connection: asyncpg.Connection[asyncpg.Record], load: Load, first: int, drafts: list[Draft]
) -> None:
    now = datetime.now(UTC)
    keys = load.keys or 1
    rows = [
        (
            number % keys, number // keys, new_id(), KIND, payload, 0, 0,
            bounds.ATTEMPTS_DEFAULT, None, now,
        )
        for number, (_, payload) in enumerate(drafts, first)
    ]  # fmt: skip
    await connection.copy_records_to_table("raw_job", columns=COLUMNS, records=rows)

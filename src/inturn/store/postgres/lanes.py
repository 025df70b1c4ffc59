"""Operators' verbs on queues and lanes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from inturn.model.errors import NotHalted, QueueInUse, UnknownJob, UnknownLane, UnknownQueue
from inturn.model.job import JobState
from inturn.model.lane import Gate, QueueSettings
from inturn.policy.limits import changed_settings, with_changes
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.sql import called, query
from inturn.store.postgres.status import settings_of

_NO_SUCH_LANE = "IT006"
_NO_SUCH_QUEUE = "IT007"

ROWS_TOGETHER = 5_000
RANK_LOOKS = 20
RANK_PAUSE_SECONDS = 0.05


async def configure(
    connection: Connection, queue: str, given: Mapping[str, Any], *, is_declared: bool = False
) -> QueueSettings:
    """Change some of a queue's settings, making it if need be; return all of them.

    Of what code declares, that is what it says otherwise than it last did.
    """
    await connection.execute(query("make_queues"), [queue])
    async with connection.transaction():
        row = await connection.fetchrow(
            "select * from inturn.queue where name = $1 for update", queue
        )
        before = settings_of(row)
        declared = msgspec.json.decode(row["declared"], type=dict[str, Any])
        changes = changed_settings(declared, given) if is_declared else given
        settings = with_changes(before, changes)
        written = msgspec.json.encode(declared | dict(given) if is_declared else declared)
        values = msgspec.structs.astuple(settings)
        await connection.execute(query("configure"), queue, *values, written.decode())
    if settings.is_limited or before.is_limited:
        # As the queue is now: another may have changed it since.
        await connection.execute(
            called(
                "select inturn.set_limits("
                "name, num_nonnulls(running_max, rate) > 0, rate is not null) "
                "from inturn.queue where name = $1"
            ),
            queue,
        )
    if before.aging_seconds != settings.aging_seconds:
        await _rank_again(connection, queue)
    return settings


async def declarations(connection: Connection) -> dict[str, dict[str, Any]]:
    """Return what code last said of each queue."""
    rows = await connection.fetch("select name, declared from inturn.queue where declared <> '{}'")
    return {name: msgspec.json.decode(text, type=dict[str, Any]) for name, text in rows}


async def declare(connection: Connection, declared: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the settings that code says, where it says other than it last did."""
    for queue, settings in sorted(declared.items()):
        await configure(connection, queue, settings, is_declared=True)


async def drop_queue(connection: Connection, queue: str) -> bool:
    """Take away a slice of a queue's history; without any, the queue. Say whether that is done."""
    row = await connection.fetchrow(called("select * from inturn.holds($1)"), queue)
    _refuse_in_use(queue, row)
    history = called("select inturn.drop_history($1, $2)")
    if await connection.fetchval(history, queue, ROWS_TOGETHER):
        return False
    row = await connection.fetchrow(called("select * from inturn.drop_queue($1)"), queue)
    _refuse_in_use(queue, row)
    return True


def _refuse_in_use(queue: str, row: asyncpg.Record) -> None:
    running, others = row
    if running or others:
        raise QueueInUse(queue, running=running, others=others)


async def _rank_again(connection: Connection, queue: str) -> None:
    """Work out the ranks of what waits, until those who read the old number have written theirs.

    One who takes longer leaves its lane with the old rank, until that has another head.
    """
    for _ in range(RANK_LOOKS):
        await connection.execute(query("rank_again"), queue)
        if not await connection.fetchval(query("ranked_otherwise"), queue):
            return
        await asyncio.sleep(RANK_PAUSE_SECONDS)


async def pause(
    connection: Connection, queue: str, key: str | None, by: str, now: datetime | None
) -> None:
    """Hold a queue, or one lane of it."""
    if key is None:
        await connection.execute(query("pause"), queue, by, now)
    else:
        await _pause_lane(connection, queue, key, by, now)


async def resume(connection: Connection, queue: str, key: str | None, now: datetime | None) -> None:
    """Let a queue, or one lane of it, go on."""
    if key is None:
        await connection.execute(query("resume"), queue)
    else:
        await _pause_lane(connection, queue, key, None, now)


async def open_gate(connection: Connection, queue: str, round: int) -> int:
    """Open the gate as far as a round; return the highest open round."""
    opened: int = await connection.fetchval(query("open_gate"), queue, round)
    return opened


async def advance_gate(connection: Connection, queue: str) -> Gate:
    """Open the next round if nothing of the open ones is unfinished."""
    try:
        row = await connection.fetchrow(called("select * from inturn.advance_gate($1)"), queue)
    except asyncpg.PostgresError as error:
        if error.sqlstate == _NO_SUCH_QUEUE:
            raise UnknownQueue(queue) from error
        raise
    return Gate(
        round=row["round"],
        advanced=row["advanced"],
        unfinished=row["unfinished"] > 0,
        exhausted=row["exhausted"],
    )


async def cancel(connection: Connection, job: UUID, by: str, now: datetime | None) -> JobState:
    """Cancel a job that is not running; return the state it has now."""
    state = await connection.fetchval(query("cancel"), job, by, now)
    if state is None:
        raise UnknownJob(job)
    return JobState(state)


async def decide_lane(
    connection: Connection, queue: str, key: str, decision: str, by: str, now: datetime | None
) -> UUID:
    """Retry, skip or drop the head of a halted lane; return its id."""
    try:
        job: UUID | None = await connection.fetchval(
            called("select inturn.decide_lane($1, $2, $3, $4, $5)"), queue, key, decision, by, now
        )
    except asyncpg.PostgresError as error:
        if error.sqlstate == _NO_SUCH_LANE:
            raise UnknownLane(queue, key) from error
        raise
    if job is None:
        raise NotHalted(queue, key)
    return job


async def _pause_lane(
    connection: Connection, queue: str, key: str, by: str | None, now: datetime | None
) -> None:
    try:
        await connection.execute(
            called("select inturn.pause_lane($1, $2, $3, $4)"), queue, key, by, now
        )
    except asyncpg.PostgresError as error:
        if error.sqlstate == _NO_SUCH_LANE:
            raise UnknownLane(queue, key) from error
        raise

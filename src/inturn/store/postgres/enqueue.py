"""Accepting jobs: a few in one call of a SQL function, many by COPY."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import Any
from uuid import UUID

from inturn.model.job import NewJob, Ticket
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.sql import query

COPY_JOBS_MIN = 40
"""From this many plain jobs on, reserving positions and a COPY beat one call with arrays."""

Row = tuple[Any, ...]

_JOB_COLUMNS = (
    "lane", "position", "id", "kind", "payload", "priority", "round", "attempts_max",
    "timeout_seconds", "enqueued_at",
)  # fmt: skip


async def enqueue(
    connection: Connection, jobs: Sequence[NewJob], now: datetime | None
) -> list[Ticket]:
    """Accept jobs in the transaction the connection is in."""
    if len(jobs) >= COPY_JOBS_MIN and all(_is_plain(job) for job in jobs):
        return await _copy(connection, jobs, now)
    return await _accept(connection, jobs, now)


async def tickets(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, Ticket]:
    """Return tickets for those of the ids that are in the store already."""
    rows = await connection.fetch(query("tickets"), ids)
    return {row["id"]: Ticket(row["id"], row["lane"], row["position"]) for row in rows}


def _is_plain(job: NewJob) -> bool:
    return job.dedupe is None and not job.after and not job.delay_seconds


async def _accept(
    connection: Connection, jobs: Sequence[NewJob], now: datetime | None
) -> list[Ticket]:
    rows = await connection.fetch(
        query("accept"),
        [job.id for job in jobs],
        [job.queue for job in jobs],
        [job.key for job in jobs],
        [job.kind for job in jobs],
        [job.payload for job in jobs],
        [job.priority for job in jobs],
        [job.round for job in jobs],
        [job.attempts_max for job in jobs],
        [job.timeout_seconds for job in jobs],
        [float(job.delay_seconds) for job in jobs],
        [job.dedupe for job in jobs],
        [float(job.dedupe_seconds) for job in jobs],
        [job.id for job in jobs for _ in job.after],
        list(chain.from_iterable(job.after for job in jobs)),
        now,
    )
    return [Ticket(*row[1:]) for row in rows]


def _grouped(jobs: Sequence[NewJob]) -> list[list[int]]:
    """Return the numbers of the jobs in their batch, by the lane they go to."""
    groups: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for number, job in enumerate(jobs):
        if job.key is None:
            groups[job.queue, None, job.kind, job.priority, job.round].append(number)
        else:
            groups[job.queue, job.key].append(number)
    return list(groups.values())


def _once(values: list[Any]) -> list[Any]:
    """Return a list in which all are equal as a list of one; the function spreads it again."""
    return values[:1] if values.count(values[0]) == len(values) else values


async def _copy(
    connection: Connection, jobs: Sequence[NewJob], now: datetime | None
) -> list[Ticket]:
    """Reserve the positions of a whole batch, then stream its rows into the log."""
    groups = _grouped(jobs)
    firsts = [jobs[numbers[0]] for numbers in groups]
    rounds = _once([job.round for job in jobs])
    if len(rounds) > 1:
        rounds = [max(rounds[number] for number in numbers) for numbers in groups]
    lanes, befores, floors, at = await connection.fetchrow(
        query("reserve"),
        _once([job.queue for job in firsts]),
        [job.key for job in firsts],
        _once([job.kind for job in firsts]),
        _once([job.priority for job in firsts]),
        _once([job.round for job in firsts]),
        rounds,
        _once(list(map(len, groups))),
        now,
    )
    rows: list[Row] = []
    tickets: list[Any] = [None] * len(jobs)
    for numbers, lane, position, round_floor in zip(groups, lanes, befores, floors, strict=True):
        keyed = jobs[numbers[0]].key is not None
        for number in numbers:
            job = jobs[number]
            position += 1
            round = job.round
            if keyed and round_floor > round:
                round = round_floor
            elif keyed:
                round_floor = round
            tickets[number] = Ticket(job.id, lane, position)
            rows.append((
                lane, position, job.id, job.kind, job.payload, job.priority, round,
                job.attempts_max, job.timeout_seconds, at,
            ))  # fmt: skip
    await connection.copy_records_to_table(
        "job", schema_name="inturn", columns=_JOB_COLUMNS, records=rows
    )
    return tickets

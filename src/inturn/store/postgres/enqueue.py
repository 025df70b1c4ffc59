"""Accepting jobs: one call of a SQL function, by a short way for plain ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import accumulate, chain
from typing import Any
from uuid import UUID

import asyncpg

from inturn.model import bounds
from inturn.model.errors import JobConflict, QueueFull
from inturn.model.job import NewJob, Ticket
from inturn.policy.dedupe import is_same_work
from inturn.policy.limits import come_back_seconds
from inturn.store.postgres.claim import SEPARATOR
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.sql import called, query


async def enqueue(
    connection: Connection, jobs: Sequence[NewJob], now: datetime | None
) -> list[Ticket]:
    """Accept jobs, in one statement."""
    if not all(map(is_plain, jobs)):
        return await _accept(connection, jobs, now, "accept")
    if len(jobs) > 1:
        return await _accept_plain(connection, jobs, now, "accept_plain")
    [job] = jobs
    lane, position = await connection.fetchval(
        query("accept_one"),
        job.id,
        job.queue,
        job.key,
        job.kind,
        job.payload,
        job.priority,
        job.round,
        job.attempts_max,
        job.timeout_seconds,
        now,
        job.unsent,
    )
    return [Ticket(job.id, lane, position)]


async def enqueue_together(
    connection: Connection, jobs: Sequence[NewJob], now: datetime | None
) -> list[Ticket]:
    """Accept jobs of several producers, or give up soon if a lock would hold them up."""
    if all(map(is_plain, jobs)):
        return await _accept_plain(connection, jobs, now, "accept_plain_together")
    return await _accept(connection, jobs, now, "accept_together")


def is_plain(job: NewJob) -> bool:
    """Say whether a job goes straight to its lane."""
    waits = job.after or job.after_failed
    return job.dedupe is None and not waits and not job.delay_seconds


async def accept(
    connection: Connection, jobs: Sequence[NewJob], now: datetime | None
) -> list[Ticket]:
    """Accept jobs, all or none, in a connection's transaction; known ones keep their tickets."""
    try:
        async with connection.transaction():  # a savepoint
            return await enqueue(connection, jobs, now)
    except asyncpg.UniqueViolationError:
        return await accept_rest(connection, jobs, now)


async def accept_rest(
    connection: Connection, jobs: Sequence[NewJob], now: datetime | None
) -> list[Ticket]:
    """Accept those jobs that are not stored already: after a lost answer, or a known id."""
    async with connection.transaction():
        await check_same(connection, jobs)
        known = await tickets(connection, [job.id for job in jobs])
        fresh = [job for job in jobs if job.id not in known]
        placed = await enqueue(connection, fresh, now) if fresh else []
    known |= {job.id: ticket for job, ticket in zip(fresh, placed, strict=True)}
    return [known[job.id] for job in jobs]


async def check_same(connection: Connection, jobs: Sequence[NewJob]) -> None:
    """Refuse jobs under whose ids other work is stored."""
    by_id = {job.id: job for job in jobs}
    for id, *content in await connection.fetch(query("contents"), list(by_id)):
        if not is_same_work(by_id[id], *content):
            raise JobConflict(id)


async def with_time(connection: Connection, full: QueueFull, now: datetime | None) -> QueueFull:
    """Return a refusal with the time to come back."""
    settled, within_seconds = await connection.fetchrow(
        called("select * from inturn.settled_lately($1, $2, $3)"),
        full.queue,
        bounds.DRAIN_MINUTES - 1,
        now,
    )
    excess = full.depth + full.added - full.depth_max
    seconds = come_back_seconds(excess, settled=settled, within_seconds=within_seconds)
    return QueueFull(full.queue, full.key, full.depth, full.depth_max, full.added, seconds)


async def tickets(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, Ticket]:
    """Return tickets for those of the ids that are in the store already."""
    rows = await connection.fetch(query("tickets"), ids)
    return {row["id"]: Ticket(row["id"], row["lane"], row["position"]) for row in rows}


async def _accept(
    connection: Connection, jobs: Sequence[NewJob], now: datetime | None, by: str
) -> list[Ticket]:
    rows = await connection.fetch(query(by), *accept_arguments(jobs, now))
    return [Ticket(*row[1:]) for row in rows]


def accept_arguments(jobs: Sequence[NewJob], now: datetime | None) -> tuple[Any, ...]:
    """Return jobs as the SQL function ``accept`` takes them: lists, and the time."""
    return (
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
        [job.id for job in jobs for _ in job.waits_for()],
        list(chain.from_iterable(job.waits_for() for job in jobs)),
        [job.id for job in jobs if job.after_failed],
        now,
    )


ACCEPT_TYPES = (
    *("uuid[]", "text[]", "text[]", "text[]", "text[]", "integer[]", "integer[]", "integer[]"),
    *("float8[]", "float8[]", "text[]", "float8[]", "uuid[]", "uuid[]", "uuid[]", "timestamptz"),
)
"""The types of these arguments, for drivers that send text."""


async def _accept_plain(
    connection: Connection, jobs: Sequence[NewJob], now: datetime | None, by: str
) -> list[Ticket]:
    """Accept jobs that go straight to their lanes."""
    groups = _grouped(jobs)
    numbers = list(chain.from_iterable(groups))
    firsts = [jobs[group[0]] for group in groups]
    ordered = [jobs[number] for number in numbers]
    rounds = rounds_last = _once([job.round for job in ordered])
    if len(rounds) > 1:
        raised = [list(_raised(jobs, group)) for group in groups]
        rounds, rounds_last = list(chain.from_iterable(raised)), [one[-1] for one in raised]
    lanes, befores = await connection.fetchrow(
        query(by),
        _once([job.queue for job in firsts]),
        [job.key for job in firsts],
        _once([job.kind for job in firsts]),
        _once([job.priority for job in firsts]),
        _once([job.round for job in firsts]),
        rounds_last,
        _once(list(map(len, groups))),
        [job.id for job in ordered],
        SEPARATOR.join([job.payload for job in ordered]),
        _once([job.kind for job in ordered]),
        _once([job.priority for job in ordered]),
        rounds,
        _once([job.attempts_max for job in ordered]),
        _once([job.timeout_seconds for job in ordered]),
        now,
    )
    tickets: list[Any] = [None] * len(jobs)
    for group, lane, before in zip(groups, lanes, befores, strict=True):
        for position, number in enumerate(group, before + 1):
            tickets[number] = Ticket(jobs[number].id, lane, position)
    return tickets


def _grouped(jobs: Sequence[NewJob]) -> list[list[int]]:
    """Return the numbers of the jobs in their batch, by the lane they go to."""
    groups: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for number, job in enumerate(jobs):
        if job.key is None:
            groups[job.queue, None, job.kind, job.priority, job.round].append(number)
        else:
            groups[job.queue, job.key].append(number)
    return list(groups.values())


def _raised(jobs: Sequence[NewJob], group: Sequence[int]) -> Iterable[int]:
    """Return the rounds of a lane's jobs, none below the one before it."""
    return accumulate((jobs[number].round for number in group), max)


def _once(values: list[Any]) -> list[Any]:
    """Return a list in which all are equal as a list of one, which stands for all of them."""
    return values[:1] if values.count(values[0]) == len(values) else values

"""Leasing jobs: one call of a SQL function, its rows grouped into claims."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain, islice, repeat, starmap
from typing import Any

import asyncpg
import msgspec
from asyncpg.pgproto.pgproto import UUID

from inturn.model.job import LeasedJob
from inturn.model.lease import Claim, Lease, Wish
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.sql import called, query

_ID = struct.Struct("16s")
SEPARATOR = "\x1e"  # stands between payloads; a control character, so in no JSON text


async def claim(connection: Connection, wish: Wish, now: datetime | None) -> list[Claim]:
    """Lease jobs of a queue; fewer, if their payloads are more than PostgreSQL can answer with."""
    jobs_max = wish.jobs_max
    while True:
        try:
            rows = await connection.fetch(
                query("claim"),
                wish.queue,
                jobs_max,
                wish.worker,
                wish.lease_seconds,
                wish.kinds,
                wish.suspects_max,
                now,
            )
        except asyncpg.ProgramLimitExceededError:  # 1 GiB; nothing was leased
            if jobs_max == 1:
                raise
            jobs_max = max(1, jobs_max // 8)
        else:
            return claims_of(wish.queue, rows)


def claims_of(queue: str, rows: Iterable[Sequence[Any]]) -> list[Claim]:
    """Make the claims that a claim's rows say, a row a token."""
    return [claim for row in rows for claim in _claims(queue, row)]


def _claims(queue: str, row: Sequence[Any]) -> list[Claim]:
    """Make the claims of one token: its lanes, and its jobs' columns, as arrays."""
    token, until, alone, lanes, keys, firsts, lasts, attempts, counts, positions, *rest = row
    id_bytes, payloads, shared, enqueued_at, odd, odd_columns, epochs = (
        rest[0], rest[1], rest[2:7], rest[7], rest[8], rest[9:14], rest[14],
    )  # fmt: skip
    ids = [*starmap(UUID, _ID.iter_unpack(id_bytes))]
    enqueued_ats: Iterable[datetime] = repeat(enqueued_at)
    if epochs is not None:
        seconds = struct.unpack(f">{len(ids)}d", epochs)
        enqueued_ats = msgspec.convert(seconds, list[datetime], strict=False)
    columns: list[Any] = [repeat(value) for value in shared]
    if odd is not None:
        places = {id: place for place, id in enumerate(ids)}
        for number, (value, values) in enumerate(zip(shared, odd_columns, strict=True)):
            column = columns[number] = [value] * len(ids)
            for id, other in zip(odd, values, strict=True):
                column[places[id]] = other
    kinds, priorities, rounds, attempts_max, timeouts = columns
    if positions is None and len(lasts) == len(ids):  # one of each lane
        positions, counts, job_keys, tries = firsts, repeat(1, len(ids)), keys, attempts
    else:
        if positions is None:
            positions = chain.from_iterable(map(range, firsts, [last + 1 for last in lasts]))
            counts = [last - first + 1 for first, last in zip(firsts, lasts, strict=True)]
        job_keys = chain.from_iterable(map(repeat, keys, counts))
        tries = chain.from_iterable(
            chain((attempt,), repeat(1, count - 1))
            for attempt, count in zip(attempts, counts, strict=True)
        )
    jobs = map(
        LeasedJob,
        ids,
        repeat(queue),
        job_keys,
        kinds,
        payloads.split(SEPARATOR),
        priorities,
        rounds,
        attempts_max,
        timeouts,
        enqueued_ats,
        positions,
        tries,
    )
    leases = map(
        Lease,
        repeat(token),
        repeat(queue),
        lanes or (None,),
        keys,
        firsts,
        lasts,
        repeat(until),
        repeat(alone),
    )
    return [
        Claim(lease, list(islice(jobs, count))) for lease, count in zip(leases, counts, strict=True)
    ]


async def extend(
    connection: Connection, leases: Sequence[Lease], lease_seconds: float, now: datetime | None
) -> tuple[list[Lease], list[Lease]]:
    """Prolong leases; return those that are lost, and those that somebody has locked."""
    rows = await connection.fetch(
        called("select token, lane, is_prolonged from inturn.extend($1, $2, $3, $4)"),
        [lease.token for lease in leases],
        [lease.lane for lease in leases],
        float(lease_seconds),
        now,
    )
    prolonged = {token for token, _, is_prolonged in rows if is_prolonged}
    held = {(token, lane) for token, lane, is_prolonged in rows if not is_prolonged}
    return (
        [lease for lease in leases if (lease.token, lease.lane) not in held],
        [
            lease
            for lease in leases
            if lease.token not in prolonged and (lease.token, lease.lane) in held
        ],
    )

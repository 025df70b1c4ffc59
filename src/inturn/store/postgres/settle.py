"""Settling: verdicts brought into ranges and arrays, then one call of a SQL function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain
from operator import itemgetter
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from inturn.model import bounds
from inturn.model.errors import LeaseLost
from inturn.model.lease import Claim, Lease, Wish
from inturn.policy.settlement import (
    PLAINLY_DONE,
    Settlement,
    done_ranges,
    error_text,
    has_result,
    keepable,
    reason_text,
    result_texts,
    traceback_text,
)
from inturn.policy.settling import Run, Settling
from inturn.policy.tally import Tally
from inturn.policy.verdict import Bury, Done, Retry
from inturn.store.postgres.claim import claims_of
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.sql import query

_json = msgspec.json.Encoder()


async def settle(connection: Connection, settling: Settling, now: datetime | None) -> None:
    """Say what became of leased jobs, in the transaction the connection is in."""
    arguments = settled(settling, now)
    if arguments is not None:
        await connection.execute(query("settle"), *arguments, connection.is_in_transaction())


async def turn(connection: Connection, settled: Sequence[Any], wish: Wish) -> list[Claim]:
    """Settle, and lease jobs of a queue if that can be done at once.

    Nothing claimed does not say that there is nothing: then claim by itself.
    """
    try:
        rows = await connection.fetch(
            query("turn"),
            *settled,
            wish.queue,
            wish.jobs_max,
            wish.lease_seconds,
            wish.kinds,
            wish.suspects_max,
        )
    except asyncpg.ProgramLimitExceededError:  # the answer is too large, and nothing was written
        await connection.execute(query("settle"), *settled, False)
        return []
    return claims_of(wish.queue, rows)


async def progress(
    connection: Connection,
    *,
    lease: Lease,
    job: UUID,
    fraction: float,
    note: str,
    now: datetime | None,
) -> None:
    """Write down how far a leased job is. Raises ``LeaseLost``."""
    said = (lease.token, lease.lane, job, float(fraction), keepable(note), now)
    if await connection.fetchval(query("progress"), *said) is None:
        raise LeaseLost([lease.token])


def settled(settling: Settling, now: datetime | None) -> tuple[Any, ...] | None:
    """Return settlements as the SQL function takes them; None if they say nothing."""
    if not settling.others:
        return _arguments(*settling.done, settling.worker, now) if settling.done.tallies else None
    open_runs: list[Run] = [*settling.done.open]
    keyed_runs: list[Run] = [*settling.done.keyed]
    parked: list[int] = []
    others: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for settlement in settling.others:
        lease, ranges = settlement.lease, done_ranges(settlement)
        if lease.lane is None:
            parked.extend(lease.token for _ in ranges)
        elif lease.key is not None and len(ranges) > 1:
            raise LeaseLost([lease.token])
        else:
            runs = open_runs if lease.key is None else keyed_runs
            runs.extend((lease.token, lease.lane, first, last) for first, last in ranges)
        _collect(settlement, others, results)
    if not (open_runs or keyed_runs or parked or others):
        return None
    return _arguments(
        open_runs,
        keyed_runs,
        settling.tallies(),
        settling.worker,
        now,
        parked,
        others,
        results,
    )


def _arguments(
    open_runs: list[Run],
    keyed_runs: list[Run],
    tallied: Sequence[Tally],
    worker: str,
    now: datetime | None,
    parked: Sequence[int] = (),
    others: Sequence[dict[str, Any]] = (),
    results: Sequence[dict[str, Any]] = (),
) -> tuple[Any, ...]:
    keyed_runs.sort(key=itemgetter(1))  # the function looks lanes up by binary search
    counts: Counter[int] = Counter()
    for token, _, first, last in chain(open_runs, keyed_runs):
        counts[token] += last - first + 1
    counts.update(parked)
    for other in others:
        counts.setdefault(other["token"], 0)
    tokens = sorted(counts)
    return (
        _array(tokens),
        _array([counts[token] for token in tokens]),
        *_arrays(open_runs),
        *_arrays(keyed_runs),
        _array(parked),
        _json.encode(others).decode() if others else None,
        _json.encode(results).decode() if results else None,
        _json.encode(tallied).decode(),
        worker,
        now,
    )


def _arrays(runs: list[Run]) -> Iterable[str]:
    return map(_array, zip(*runs, strict=True) if runs else ((), (), (), ()))


def _array(numbers: Iterable[int]) -> str:
    """Write an array as PostgreSQL reads it, which is quicker than to let the driver do it."""
    return f"{{{str([*numbers])[1:-1]}}}"


def _collect(
    settlement: Settlement, others: list[dict[str, Any]], results: list[dict[str, Any]]
) -> None:
    """Gather what is not simply done, and the results to keep."""
    for outcome in settlement.outcomes:
        verdict = outcome.verdict
        if verdict is PLAINLY_DONE or (type(verdict) is Done and not has_result(verdict)):
            continue
        place = {
            "token": settlement.lease.token,
            "lane": settlement.lease.lane,
            "position": outcome.job.position,
            "job": outcome.job.id,
        }
        if type(verdict) is Done:
            seconds = verdict.result_seconds
            value, lost = result_texts(verdict)
            results.append(
                {
                    **place,
                    "value": value,
                    "lost": lost,
                    "seconds": bounds.RESULT_SECONDS_DEFAULT if seconds is None else seconds,
                }
            )
            continue
        other: dict[str, Any] = {
            **place,
            "verdict": "release",
            "delay": 0.0,
            "counted": True,
        }
        if type(verdict) is Retry:
            other |= {
                "verdict": "retry",
                "delay": verdict.delay_seconds,
                "error": error_text(verdict),
                "traceback": traceback_text(verdict),
                "counted": verdict.counted,
            }
        elif type(verdict) is Bury:
            other |= {
                "verdict": "bury",
                "error": error_text(verdict),
                "traceback": traceback_text(verdict),
                "reason": reason_text(verdict),
            }
        others.append(other)

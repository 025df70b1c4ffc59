"""Rows and times as they are kept, turned into what they mean, and back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from inturn.model import bounds
from inturn.model.job import AttemptError, Job

Micros = int
SECOND: Micros = 1_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(time: datetime) -> Micros:
    """Return a time as it is kept."""
    return (time - _EPOCH) // _MICROSECOND


def micros_of_seconds(seconds: float) -> Micros:
    """Return a span of seconds as it is kept."""
    return round(seconds * SECOND)


def time_of(kept: Micros) -> datetime:
    """Return a kept time as a time with its zone."""
    return _EPOCH + timedelta(microseconds=kept)


def time_or_none(kept: Micros | None) -> datetime | None:
    """Return a kept time as a time, or nothing for nothing."""
    return None if kept is None else time_of(kept)


WHOLE_JOB = (
    "id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds, enqueued_at"
)
"""A job's columns, in this order, wherever it is kept whole."""

_errors_decoder = msgspec.json.Decoder(tuple[AttemptError, ...])


class WholeJob(msgspec.Struct, array_like=True):
    """A job as it is kept, whole: the columns of ``WHOLE_JOB``."""

    id: bytes
    queue: str
    key: str | None
    kind: str
    payload: str
    priority: int
    round: int
    attempts_max: int
    timeout_seconds: float | None
    enqueued_at: Micros


def job_of(row: Sequence[Any]) -> Job:
    """Return the job whose columns of ``WHOLE_JOB`` open the row."""
    return Job(*decoded(row[:10]))


def decoded(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return a row that the columns of ``WHOLE_JOB`` open, its id and time as what they mean."""
    return UUID(bytes=row[0]), *row[1:9], time_of(row[9]), *row[10:]


def errors_of(kept: str | None) -> tuple[AttemptError, ...]:
    """Return the errors of a kept JSON list."""
    return () if kept is None else _errors_decoder.decode(kept)


def with_error(kept: str | None, added: AttemptError) -> str:
    """Return the kept JSON list with one more error, and without its first if it is full.

    A traceback is kept of the first error kept and of the last: those between are mostly the same,
    and a history is written again with each attempt. The same stands in the PostgreSQL function
    ``inturn.with_error``; the contract suite compares the two stores.
    """
    errors = errors_of(kept)
    if errors:
        added = msgspec.structs.replace(added, number=errors[-1].number + 1)
    if len(errors) > 1:
        errors = (*errors[:-1], msgspec.structs.replace(errors[-1], traceback=None))
    return msgspec.json.encode((*errors, added)[-bounds.ERRORS_MAX :]).decode()


def rank(since: Micros, priority: int, aging_seconds: float) -> Micros:
    """Return a place among what may be claimed: lower is first, a priority is worth its ageing."""
    return since - round(priority * aging_seconds * 1_000_000)

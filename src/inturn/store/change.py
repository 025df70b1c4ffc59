"""A change: what is to happen together and needs no read in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec

from inturn.model import bounds
from inturn.model.admissible import (
    check_by,
    check_ids,
    check_jobs,
    check_name,
    check_whole,
    listed,
    shown,
)
from inturn.model.errors import BadInput
from inturn.model.job import NewJob
from inturn.policy.settlement import Settlement
from inturn.policy.settling import Settling, check_settlements
from inturn.store.queries import Query

Slices = Callable[[Iterable[Any]], Iterator[str]]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is to happen together, in this order, in which others take their locks, too.

    ``rows``: queries of an application's own, each with its parameters, or with the list of rows
    that ``run_many`` would take. ``worker`` is who settles, ``by`` who cancels. ``gates``: queues,
    each with the round as far as its gate opens, or with None for the next that has jobs.
    """

    rows: Sequence[tuple[Query[Any], Mapping[str, Any] | Sequence[Any]]] = ()
    settle: Sequence[Settlement] = ()
    cancel: Sequence[UUID] = ()
    enqueue: Sequence[NewJob] = ()
    gates: Sequence[tuple[str, int | None]] = ()
    worker: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """A change that may happen: in the order of its fields."""

    rows: list[tuple[Query[Any], Mapping[str, Any]]]
    settling: Settling | None
    cancel: list[UUID]
    by: str
    jobs: list[NewJob]
    gates: list[tuple[str, int | None]]


def checked(change: Change, slices: Slices) -> Checked:
    """Refuse a change that no store could make; return it with many rows cut into slices."""
    if not isinstance(change, Change):
        raise BadInput(f"a Change is needed, not {shown(change)}.")
    rows: list[tuple[Query[Any], Mapping[str, Any]]] = []
    for query, given in change.rows:
        if isinstance(given, Mapping):
            rows.append((query, given))
        else:
            rows.extend((query, {"rows": text}) for text in slices(given))
    cancel, jobs = listed("cancel", change.cancel), listed("enqueue", change.enqueue)
    check_ids("job", cancel)
    if cancel:
        check_by(change.by)
    check_jobs(jobs)
    for queue, round in change.gates:
        check_name("queue", queue, bounds.QUEUE_CHARS_MAX)
        if round is not None:
            check_whole("round", round, 0, bounds.ROUND_MAX)
    settlements = listed("settle", change.settle)
    settling = check_settlements(settlements, change.worker) if settlements else None
    return Checked(rows, settling, sorted(cancel), change.by, jobs, list(change.gates))

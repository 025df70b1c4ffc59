"""What must be the same on both stores: answers without tokens, lane ids and allowed differences.

Allowed: on PostgreSQL a job whose wait is over stands by itself until the next claim, so ``lane``
and ``position`` of a view may be missing; they are compared where both stores have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inturn.model.job import JobView, Ticket
from inturn.model.lane import LaneState, LaneView
from inturn.model.lease import Claim


def ticket(one: Ticket) -> Any:
    return one.id, one.position, one.duplicate, one.lane is None


def claims(all_claims: Sequence[Claim]) -> Any:
    """Suspects in any order, then the others as they came."""
    alone = {claim(one) for one in all_claims if one.lease.alone}
    others = [claim(one) for one in all_claims if not one.lease.alone]
    return len(all_claims), alone, others


def claim(one: Claim) -> Any:
    lease = one.lease
    jobs = tuple(
        (job.id, job.attempt, job.round, job.payload, job.enqueued_at, job.position)
        for job in one.jobs
    )
    return lease.queue, lease.lane is None, lease.key, lease.until, lease.alone, jobs


def view(one: JobView) -> dict[str, Any]:
    shown = {name: getattr(one, name) for name in one.__struct_fields__}
    del shown["lane"], shown["position"]
    return shown


def lane(one: LaneView) -> dict[str, Any]:
    shown = {name: getattr(one, name) for name in one.__struct_fields__}
    del shown["id"], shown["cursor"]  # a cursor may stand before cancelled places or behind them
    if one.state is LaneState.IDLE:
        del shown["kind"], shown["priority"], shown["round"]  # those of a head that it has not
    return shown

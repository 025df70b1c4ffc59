"""A lease: the right to settle a run of positions of one lane, until it runs out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from inturn.model.job import LeasedJob


class Lease(msgspec.Struct, frozen=True, gc=False):
    """The right to settle a run of positions of one lane, until it runs out.

    Every verb that ends an attempt takes the lease and never a job id, so a worker whose lease
    expired cannot mark a job done. Leases of one claim share a token; each is
    named by token and lane. A parked job is leased by itself, with ``lane`` None and position 1.
    """

    token: int  # only goes up, and is never given back: the fence
    queue: str
    lane: int | None
    key: str | None
    first: int
    last: int
    until: datetime
    alone: bool = False  # a suspect: run it with nothing else at its side

    @property
    def is_keyed(self) -> bool:
        """Whether its jobs run one after the other: whatever is not done gives back the rest."""
        return self.key is not None and self.lane is not None


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker asks for when it claims."""

    queue: str
    jobs_max: int
    worker: str
    lease_seconds: float
    kinds: Sequence[str] | None  # None: all
    suspects_max: int


class Claim(msgspec.Struct, frozen=True):
    """A lease and the jobs under it, in the order of their positions.

    Cancelled positions are left out, so ``jobs`` may be fewer than ``last - first + 1``.
    """

    lease: Lease
    jobs: Sequence[LeasedJob]


class Reclaimed(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep over leases that ran out has done."""

    leases: int = 0
    suspects: int = 0  # jobs that will now be leased alone
    buried: int = 0  # jobs that killed their worker too often


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What a prune took away."""

    jobs: int = 0
    lanes: int = 0
    cancelled: int = 0
    results: int = 0
    dedupes: int = 0
    stats: int = 0
    workers: int = 0

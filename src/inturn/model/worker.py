"""Workers and per-minute statistics as a person sees them."""

from __future__ import annotations

from datetime import datetime

import msgspec

DURATION_BOUNDS_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Upper ends of the duration histogram's buckets; one more bucket holds what took longer."""


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process: who, where, since when, and what it can run."""

    id: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    running: int = 0
    duties: tuple[str, ...] = ()  # that it alone does; set by the store
    process: str = ""  # names the process on its machine; empty where that cannot be said
    started_at: datetime | None = None  # set by the store
    seen_at: datetime | None = None  # set by the store


class Stat(msgspec.Struct, frozen=True, kw_only=True):
    """What was settled for one kind of a queue within one minute."""

    queue: str
    kind: str
    minute_at: datetime
    done: int
    retried: int
    buried: int
    released: int
    seconds_sum: float
    durations: tuple[int, ...]  # counts per bucket of DURATION_BOUNDS_SECONDS, and one beyond

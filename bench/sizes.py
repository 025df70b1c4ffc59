"""How much is measured: the sizes of a full run, and of a quick one that only shows it works."""

from __future__ import annotations

from dataclasses import dataclass

BATCH = 500
PAYLOAD_BYTES = 100
PROCESSES = 2
CONNECTIONS = 2  # of each process, each with one consumer
CLAIM_AT_DEPTH = 100
PRODUCERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of one run."""

    quick: bool
    runs: int  # of each side, in turn; the median counts
    drain_jobs: int
    drain_keys: int  # of the load with very many keys, two jobs each
    enqueue_jobs: int
    own_rows: int  # of an application, written in one transaction
    poll_items: int  # of an outside system that is followed from the beginning
    idle_seconds: float
    limit_seconds: float
    rate_seconds: float
    replay_jobs: int
    ticket_jobs: int
    held_seconds: float
    held_window_seconds: float
    held_warm_seconds: float
    held_backlog: int
    depth_deep: int
    depth_shallow: int
    depth_claims: int
    status_reads: int
    sqlite_jobs: int
    producer_seconds: float
    worker_part: int  # of the jobs that each contender's configuration names
    submit_runs: int  # of each side, in turn: many short ones, for a disk has its moods
    submit_seconds: float
    latency_jobs: int
    memory_jobs: int
    backlog_depths: tuple[int, ...]  # at which all contenders are measured
    backlog_windows: int  # of a second each
    backlog_warm_seconds: float
    backlog_fill_seconds: float  # what takes longer to fill is left out, and named
    trickle_jobs: int  # enqueued now and then, in each run
    contest_seconds: float  # of enqueueing, in each run
    contest_held_seconds: float
    contest_held_window_seconds: float
    contest_held_backlog: int
    at_once: int  # contenders; more than one only where figures say nothing


FULL = Sizes(
    quick=False,
    runs=3,
    drain_jobs=400_000,
    drain_keys=50_000,
    enqueue_jobs=100_000,
    own_rows=100_000,
    poll_items=100_000,
    idle_seconds=30,
    limit_seconds=6,
    rate_seconds=60,
    replay_jobs=60_000,
    ticket_jobs=220,
    held_seconds=60,
    held_window_seconds=5,
    held_warm_seconds=2,
    held_backlog=10_000,
    depth_deep=1_000_000,
    depth_shallow=1_000,
    depth_claims=200,
    status_reads=100,
    sqlite_jobs=50_000,
    producer_seconds=2,
    worker_part=1,
    submit_runs=9,
    submit_seconds=1,
    latency_jobs=1_020,
    memory_jobs=1_000_000,
    backlog_depths=(1_000, 10_000, 100_000, 1_000_000),
    backlog_windows=3,
    backlog_warm_seconds=1,
    backlog_fill_seconds=40,
    trickle_jobs=45,
    contest_seconds=1,
    contest_held_seconds=40,
    contest_held_window_seconds=5,
    contest_held_backlog=10_000,
    at_once=1,
)

QUICK = Sizes(
    quick=True,
    runs=1,
    drain_jobs=10_000,
    drain_keys=5_000,
    enqueue_jobs=10_000,
    own_rows=5_000,
    poll_items=10_000,
    idle_seconds=5,
    limit_seconds=2,
    rate_seconds=10,
    replay_jobs=10_000,
    ticket_jobs=40,
    held_seconds=10,
    held_window_seconds=2,
    held_warm_seconds=1,
    held_backlog=10_000,
    depth_deep=50_000,
    depth_shallow=1_000,
    depth_claims=30,
    status_reads=20,
    sqlite_jobs=10_000,
    producer_seconds=0.5,
    worker_part=20,
    submit_runs=1,
    submit_seconds=0.5,
    latency_jobs=60,
    memory_jobs=50_000,
    backlog_depths=(1_000,),
    backlog_windows=3,
    backlog_warm_seconds=0.5,
    backlog_fill_seconds=30,
    trickle_jobs=15,
    contest_seconds=0.3,
    contest_held_seconds=3,
    contest_held_window_seconds=1,
    contest_held_backlog=1_000,
    at_once=4,
)

"""What is measured of a contender: each function makes one run and returns what it came to."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench import steady
from bench.compare import Bench
from bench.contenders import Contender, best
from bench.crew import Crew, crew, drain, prepare, tell
from bench.peers.peer import Peer
from bench.places import place
from bench.throughput import in_order

RUN_SECONDS_MAX = 30.0
WARM_JOBS = 5  # of those enqueued now and then

Found = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that is measured of contenders, run by run."""

    name: str
    contenders: Callable[[Sequence[Peer]], list[Contender]]
    run: Callable[[Bench, Contender], Found]


def every_configuration(peers: Sequence[Peer]) -> list[Contender]:
    """Return each peer in each configuration."""
    return [Contender(peer, one) for peer in peers for one in peer.configurations]


def with_and_without_sync(peers: Sequence[Peer]) -> list[Contender]:
    """Return each peer once, and those on Redis also with every write synced."""
    return [one for one in every_configuration(peers) if one.configuration.name != "default"] + [
        best(peer) for peer in peers if len(peer.configurations) == 1
    ]


def default_and_best(peers: Sequence[Peer]) -> list[Contender]:
    """Return each peer in each configuration that keeps up, without syncing every write."""
    return [
        one
        for one in every_configuration(peers)
        if one.configuration.keeps_up and one.configuration.fsync != "always"
    ]


def with_keys(peers: Sequence[Peer]) -> list[Contender]:
    """Return the peers that promise to run the jobs of a key in order."""
    return [Contender(peer, peer.keyed) for peer in peers if peer.keyed is not None]


def on_postgres(peers: Sequence[Peer]) -> list[Contender]:
    """Return the peers on PostgreSQL."""
    return [best(peer) for peer in peers if peer.broker == "postgres"]


def drained(bench: Bench, one: Contender) -> Found:
    """Let workers empty a full queue."""
    done = drain(bench, one.peer, one.configuration, jobs=one.jobs(bench))
    return {
        "jobs": done.jobs,
        "rate": done.rate,
        "processor_microseconds": done.processor_microseconds,
        **done.left,
    }


def keyed(bench: Bench, one: Contender) -> Found:
    """Let workers empty a queue of jobs with keys; a job out of place breaks it."""
    done = in_order(bench, one)
    return {"jobs": done.jobs, "rate": done.rate}


def submitted_one(bench: Bench, one: Contender) -> Found:
    """Enqueue for a time, one at a time."""
    return _submitted(bench, one, "one")


def submitted_many(bench: Bench, one: Contender) -> Found:
    """Enqueue for a time, in the peer's way to enqueue many."""
    return _submitted(bench, one, "many")


def latency(bench: Bench, one: Contender) -> Found:
    """Enqueue now and then, for one idle worker process."""
    jobs = bench.sizes.trickle_jobs
    program = one.peer.environment.install()
    with place(bench, one.peer, one.configuration.fsync) as where:
        prepare(one.peer, program, where.url)
        command = one.peer.work_command(program, where.url, one.configuration)
        with crew(command, where.url, 1, keeps_runs=True) as workers:
            workers.go()
            said = tell(one.peer, [*program, "trickle", where.url, str(jobs)])
            _await(workers, jobs)
            started_at = {number: at for at, number in workers.stop()}
    called_at: list[int] = json.loads(said)
    return {
        "milliseconds": [
            (started_at[number] - called_at[number]) / 1e6 for number in range(WARM_JOBS, jobs)
        ]
    }


def held(bench: Bench, one: Contender) -> Found:
    """Enqueue and run under a transaction that someone left open."""
    windows = steady.held(bench, one)
    return {
        "rates": [rate for window in windows for rate in window.rates],
        "processor_microseconds": [window.processor_microseconds for window in windows],
        "window_seconds": bench.sizes.contest_held_window_seconds,
    }


def backlog(bench: Bench, one: Contender) -> Found:
    """Enqueue and run while so many wait."""
    return {"depths": [asdict(depth) for depth in steady.backlog(bench, one)]}


MEASURES = (
    Measure("drain", every_configuration, drained),
    Measure("submit-one", with_and_without_sync, submitted_one),
    Measure("submit-many", with_and_without_sync, submitted_many),
    Measure("keyed", with_keys, keyed),
    Measure("latency", default_and_best, latency),
    Measure("held", on_postgres, held),
    Measure("backlog", on_postgres, backlog),
)


def _submitted(bench: Bench, one: Contender, how: str) -> Found:
    program = one.peer.environment.install()
    with place(bench, one.peer, one.configuration.fsync) as where:
        prepare(one.peer, program, where.url)
        seconds = str(bench.sizes.contest_seconds)
        told = json.loads(tell(one.peer, [*program, "submit", where.url, seconds, how]))
        waiting = where.count(one.peer.unfinished)
    if waiting != told["warm"] + told["jobs"]:
        raise AssertionError(f"{one.name}: {told} were enqueued, and {waiting} wait")
    return {"jobs": told["jobs"], "rate": told["jobs"] / told["seconds"]}


def _await(workers: Crew, jobs: int) -> None:
    give_up_at = time.monotonic() + RUN_SECONDS_MAX
    while workers.count() < jobs:
        workers.insist_on_life()
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{workers.count()} of {jobs} jobs were run")
        time.sleep(0.02)

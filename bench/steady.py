"""Workers on a queue that a producer keeps as full as it was, even under a held transaction."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.compare import Bench
from bench.contenders import Contender
from bench.crew import ROOT, Crew, crew, end, prepare, surroundings, tell, used_seconds
from bench.peers.peer import Peer
from bench.places import Place, place

LOOK_SECONDS = 0.02


class TooSlow(Exception):
    """A queue could not be filled in the time that there is."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of one window or more."""

    rates: list[float]  # jobs a second, window by window
    processor_microseconds: float | None  # a job, of the workers and the server


def held(bench: Bench, one: Contender) -> list[Measured]:
    """Return what each window came to, from the moment a transaction was left open."""
    sizes = bench.sizes
    windows = round(sizes.contest_held_seconds / sizes.contest_held_window_seconds)
    with place(bench, one.peer) as where:
        program = one.peer.environment.install()
        prepare(one.peer, program, where.url)
        _fill_up(one.peer, program, where, sizes.contest_held_backlog, sizes.backlog_fill_seconds)
        with _served(one, program, where, sizes.contest_held_backlog) as workers:
            time.sleep(sizes.held_warm_seconds)
            with psycopg.connect(where.url, autocommit=True) as connection:
                connection.execute("begin isolation level repeatable read")
                connection.execute("select count(*) from pg_class")  # takes its snapshot
                found = [
                    _measured(workers, where, 1, sizes.contest_held_window_seconds)
                    for _ in range(windows)
                ]
                connection.execute("rollback")
    return found


@dataclass(frozen=True, slots=True)
class Depth:
    """What it came to while so many jobs waited."""

    waiting: int
    rates: list[float]  # window by window
    processor_microseconds: float | None  # a job, of the workers and the server


def backlog(bench: Bench, one: Contender) -> list[Depth]:
    """Return what each depth came to that could be reached in time."""
    sizes = bench.sizes
    found: list[Depth] = []
    waiting = 0
    with place(bench, one.peer) as where:
        program = one.peer.environment.install()
        prepare(one.peer, program, where.url)
        for depth in sizes.backlog_depths:
            bench.say(f"{one.name}, {depth:,} waiting")
            try:
                more = depth - waiting
                _fill_up(one.peer, program, where, more, sizes.backlog_fill_seconds)
            except TooSlow:
                break
            with _served(one, program, where, depth) as workers:
                time.sleep(sizes.backlog_warm_seconds)
                came_to = _measured(workers, where, sizes.backlog_windows, 1)
            found.append(Depth(depth, came_to.rates, came_to.processor_microseconds))
            waiting = where.count(one.peer.unfinished)
    return found


@contextlib.contextmanager
def _served(one: Contender, program: Sequence[str], where: Place, waiting: int) -> Iterator[Crew]:
    """Let workers run jobs, and a producer enqueue as many as they have run."""
    command = one.peer.work_command(program, where.url, one.configuration)
    with crew(command, where.url, one.configuration.processes) as workers:
        workers.go()
        with (workers.folder / "feed").open("wb") as output:
            feed = subprocess.Popen(
                [*program, "feed", where.url, str(waiting)],
                cwd=ROOT,
                env=surroundings(workers.folder, where.url),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            yield workers
            if feed.poll() is not None:
                said = Path(workers.folder / "feed").read_text()[-2_000:]
                raise RuntimeError(f"{one.name}: the producer ended with {feed.returncode}\n{said}")
        finally:
            end([feed])


def _measured(workers: Crew, where: Place, windows: int, seconds: float) -> Measured:
    before, counted = used_seconds(workers, where), workers.count()
    rates = _rates(workers, windows, seconds)
    after, ran = used_seconds(workers, where), workers.count() - counted
    took = None if before is None or after is None else (after - before) / max(ran, 1)
    return Measured(rates, None if took is None else took * 1e6)


def _rates(workers: Crew, windows: int, seconds: float) -> list[float]:
    rates = []
    counted, at = workers.count(), time.monotonic()
    for _ in range(windows):
        until = at + seconds
        while (now := time.monotonic()) < until:
            workers.insist_on_life()
            time.sleep(min(LOOK_SECONDS, until - now))
        count, ended_at = workers.count(), time.monotonic()
        rates.append((count - counted) / (ended_at - at))
        counted, at = count, ended_at
    return rates


def _fill_up(
    peer: Peer, program: Sequence[str], where: Place, jobs: int, seconds_max: float
) -> None:
    try:
        tell(peer, peer.fill_command(program, where.url, max(jobs, 0), 0), seconds_max)
    except subprocess.TimeoutExpired as error:
        raise TooSlow(f"{jobs:,} jobs took more than {seconds_max:g} s to enqueue") from error
    where.tidy()

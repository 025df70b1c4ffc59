"""A peer: a queue that workers of ours are measured beside, and how it is set up and driven.

Each has a program that runs in the peer's own environment and knows these commands:

    prepare URL KEYS       make the tables; KEYS is 0 for jobs without keys
    fill URL JOBS KEYS     enqueue the jobs in order, many at a time
    submit URL SECONDS HOW enqueue for so long, "one" or "many" at a time; print how many
    trickle URL JOBS       enqueue one now and then; print when each enqueue was called
    feed URL WAITING       keep so many jobs waiting, until it is ended
    work URL SETTINGS      be a worker, until it is ended; SETTINGS is JSON

``work`` tells of itself through files in the folder ``BENCH_FOLDER``: see ``tally.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Broker = Literal["postgres", "redis", "sqlite"]
Fsync = Literal["everysec", "always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One way to run a peer's workers."""

    name: str  # "default" or "best"
    why: str
    processes: int = 1
    jobs: int  # enough for seconds of work
    settings: Mapping[str, Any] = field(default_factory=dict)
    fsync: Fsync = "everysec"  # when Redis syncs its log, for peers that use it
    keeps_up: bool = True  # with a job every 50 ms, so that latency can be told


class Environment(Protocol):
    """Where a peer is installed."""

    @property
    def version(self) -> str:
        """The version of the peer that is pinned."""
        ...

    def install(self) -> Sequence[str]:
        """Install it, if it is not yet; return the command that runs its program."""
        ...


class CannotInstall(Exception):
    """A peer could not be installed here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A queue, with its pinned versions and its configurations."""

    name: str
    environment: Environment
    broker: Broker = "postgres"
    unfinished: str  # how many jobs are not settled: SQL, or Redis commands whose answers add up
    configurations: tuple[Configuration, ...]
    keyed: Configuration | None = None  # its way to run the jobs of a key in order
    order: str  # what it promises about that
    loss: str  # what it promises about a job whose worker dies

    def prepare_command(self, program: Sequence[str], url: str, keys: int) -> list[str]:
        """Return the command that makes the tables."""
        return [*program, "prepare", url, str(keys)]

    def fill_command(self, program: Sequence[str], url: str, jobs: int, keys: int) -> list[str]:
        """Return the command that enqueues jobs."""
        return [*program, "fill", url, str(jobs), str(keys)]

    def work_command(
        self, program: Sequence[str], url: str, configuration: Configuration
    ) -> list[str]:
        """Return the command that is one worker process."""
        return [*program, "work", url, json.dumps(dict(configuration.settings))]

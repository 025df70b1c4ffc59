"""A peer: a queue that workers of ours are measured beside, and how it is set up and driven.

Each has a program that runs in the peer's own environment and knows two commands:

    fill URL JOBS KEYS     make the tables, enqueue the jobs in order; KEYS is 0 for jobs without
    work URL SETTINGS      be a worker, until it is ended; SETTINGS is JSON

``work`` tells of itself through files in the folder ``BENCH_FOLDER``: see ``tally.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One way to run a peer's workers."""

    name: str  # "default" or "best"
    why: str
    processes: int = 1
    jobs: int  # enough for seconds of work
    settings: Mapping[str, Any] = field(default_factory=dict)


class Environment(Protocol):
    """Where a peer is installed."""

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
    unfinished: str  # SQL: how many jobs are not settled yet
    configurations: tuple[Configuration, ...]

    def fill_command(self, program: Sequence[str], url: str, jobs: int, keys: int) -> list[str]:
        """Return the command that makes the tables and enqueues jobs."""
        return [*program, "fill", url, str(jobs), str(keys)]

    def work_command(
        self, program: Sequence[str], url: str, configuration: Configuration
    ) -> list[str]:
        """Return the command that is one worker process."""
        return [*program, "work", url, json.dumps(dict(configuration.settings))]

"""What was measured, as data: written to and read from the JSON beside a result."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Found = dict[str, Any]
JOBS_MIN = 50  # fewer, and what the start of a worker costs is all there is
P99_SAMPLES_MIN = 1_000  # of fewer, it is nearly the longest


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A contender, as readers need to know it."""

    name: str
    peer: str
    configuration: str
    broker: str
    version: str
    why: str
    processes: int
    settings: dict[str, Any]
    durability: str
    order: str
    loss: str
    keeps_order: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AtDepth:
    """What a contender came to while so many jobs waited, the medians of its runs."""

    waiting: int
    rate: float
    processor_microseconds: float | None  # a job, if all runs could tell
    runs: int  # that reached the depth in time


@dataclass(slots=True, kw_only=True)
class Record:
    """Everything a run came to."""

    date: str
    command: str
    quick: bool
    conditions: dict[str, Any]
    entries: list[Entry] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)  # peer: why
    broke: dict[str, str] = field(default_factory=dict)  # measure and contender: why
    found: dict[str, dict[str, list[Found]]] = field(default_factory=dict)
    bars: list[dict[str, Any]] = field(default_factory=list)  # of the other benchmarks
    seconds: float = 0.0
    plots: list[str] = field(default_factory=list)  # that were drawn

    def entry(self, name: str) -> Entry:
        """Return a contender."""
        return next(one for one in self.entries if one.name == name)

    def runs(self, measure: str) -> dict[str, list[Found]]:
        """Return the runs of each contender, those that came to nothing left out."""
        return {name: runs for name, runs in self.found.get(measure, {}).items() if runs}

    def middles(self, measure: str, name: str = "rate") -> dict[str, float]:
        """Return the median of a figure for each contender that has it, the greatest first."""
        medians = {
            contender: statistics.median(run[name] for run in runs)
            for contender, runs in self.runs(measure).items()
            if all(run.get(name) is not None for run in runs)
        }
        return dict(sorted(medians.items(), key=lambda one: -one[1]))

    def windows(self, measure: str, name: str = "rates") -> dict[str, list[float]]:
        """Return a figure window by window, each the median of all runs, where all have it."""
        return {
            contender: [
                statistics.median(told) for told in zip(*(run[name] for run in runs), strict=True)
            ]
            for contender, runs in self.runs(measure).items()
            if all(None not in run.get(name, [None]) for run in runs)
        }

    def seconds_of(self, measure: str) -> dict[str, list[float]]:
        """Return how long each run of each contender took."""
        return {
            contender: [run["jobs"] / run["rate"] for run in runs]
            for contender, runs in self.runs(measure).items()
        }

    def depths(self) -> dict[str, list[AtDepth]]:
        """Return what each contender came to at each depth that it reached in any run."""
        return {contender: _depths(runs) for contender, runs in self.runs("backlog").items()}

    def left(self, name: str) -> dict[str, float]:
        """Return what a job left behind in PostgreSQL, where there were enough jobs to tell."""
        return {
            contender: value
            for contender, value in self.middles("drain", name).items()
            if self.runs("drain")[contender][0]["jobs"] >= JOBS_MIN
        }

    def write(self, path: Path) -> None:
        """Write all of it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")


def read(path: Path) -> Record:
    """Read what was written."""
    told = json.loads(path.read_text())
    told["entries"] = [Entry(**one) for one in told["entries"]]
    return Record(**told)


def _depths(runs: Iterable[Found]) -> list[AtDepth]:
    reached: dict[int, list[Found]] = {}
    for run in runs:
        for depth in run["depths"]:
            reached.setdefault(depth["waiting"], []).append(depth)
    return [_at_depth(waiting, found) for waiting, found in sorted(reached.items())]


def _at_depth(waiting: int, found: Sequence[Found]) -> AtDepth:
    used = [one["processor_microseconds"] for one in found]
    return AtDepth(
        waiting=waiting,
        rate=statistics.median(statistics.median(one["rates"]) for one in found),
        processor_microseconds=None if None in used else statistics.median(used),
        runs=len(found),
    )


def latencies(runs: Iterable[Found]) -> list[float]:
    """Return the milliseconds of all runs, shortest first."""
    return sorted(one for run in runs for one in run["milliseconds"])


def percentile(ordered: Sequence[float], rank: int) -> float:
    """Return a percentile of what is in order."""
    return statistics.quantiles(ordered, n=100, method="inclusive")[rank - 1]

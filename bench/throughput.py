"""Worker processes that empty a full queue on PostgreSQL, beside those of the peers."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.compare import Bench, rated
from bench.crew import Drained, Ran, drain
from bench.peers import graphile_worker, pgqueuer, procrastinate
from bench.peers.ours import OURS
from bench.peers.peer import CannotInstall, Configuration, Peer
from bench.table import Bar, Row, absent

PYTHON_PEERS = (pgqueuer.PEER, procrastinate.PEER)
PEERS = (*PYTHON_PEERS, graphile_worker.PEER)
NOOP_BAR, NODE_BAR, KEYED_BAR = 4, 2, 50
KEYS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """A queue in one of its configurations."""

    peer: Peer
    configuration: Configuration

    @property
    def name(self) -> str:
        """What it is called in the result."""
        return f"{self.peer.name}-{self.configuration.name}"

    def jobs(self, bench: Bench) -> int:
        """Return how many jobs it gets."""
        return self.configuration.jobs // bench.sizes.worker_part


def noop(bench: Bench) -> list[Row]:
    """Let each contender run jobs without keys that do nothing."""
    peers, rows = _installed(bench, "worker-noop", PEERS)
    contenders = [Contender(peer, one) for peer in peers for one in peer.configurations]
    ours = Contender(OURS, OURS.configurations[0])
    rates: dict[Contender, list[float]] = {one: [] for one in (ours, *contenders)}
    for run in range(bench.sizes.runs):
        for one in rates:
            bench.say(f"{one.name}, run {run + 1} of {bench.sizes.runs}")
            rates[one].append(drain(bench, one.peer, one.configuration, jobs=one.jobs(bench)).rate)
    return [*_noop_rows(bench, ours, rates), *rows]


def keyed(bench: Bench) -> list[Row]:
    """Let jobs of a thousand keys run, each key's in order, beside Procrastinate's locks."""
    peers, rows = _installed(bench, "worker-1000-keys", [procrastinate.PEER])
    ours = Contender(OURS, OURS.configurations[1])
    locks = [Contender(peer, procrastinate.WITH_LOCKS) for peer in peers]
    rates: dict[Contender, list[float]] = {one: [] for one in (ours, *locks)}
    for run in range(bench.sizes.runs):
        for one in rates:
            bench.say(f"{one.name}, run {run + 1} of {bench.sizes.runs}")
            rates[one].append(_in_order(bench, one).rate)
    for one in locks:
        note = (
            f"{ours.jobs(bench):,} jobs of ours, {one.jobs(bench):,} of {one.peer.name}'s, "
            f"{KEYS:,} keys; every run of both sides in order"
        )
        bar = Bar(KEYED_BAR)
        rows.append(rated("worker-1000-keys", bar, rates[ours], rates[one], note=note))
    return rows


def out_of_order(runs: Sequence[Ran], keys: int) -> int:
    """Count the jobs that ran after a later one of their key, over all processes."""
    latest: dict[int, int] = {}
    wrong = 0
    for _, number in runs:
        wrong += number < latest.get(number % keys, -1)
        latest[number % keys] = max(number, latest.get(number % keys, -1))
    return wrong


def peers_and_configurations() -> str:
    """Say for each peer what its configurations are."""
    return "; ".join(
        f"{peer.name} {one.name}: {one.processes} processes, {dict(one.settings) or 'no settings'}"
        for peer in (OURS, *PEERS)
        for one in peer.configurations
    )


def _in_order(bench: Bench, one: Contender) -> Drained:
    jobs = one.jobs(bench)
    done = drain(bench, one.peer, one.configuration, jobs=jobs, keys=KEYS, keeps_runs=True)
    if sorted(number for _, number in done.runs) != list(range(jobs)):
        raise AssertionError(f"{one.name}: what ran is not what went in")
    if wrong := out_of_order(done.runs, KEYS):
        raise AssertionError(f"{one.name}: {wrong} jobs ran out of order")
    return done


def _installed(bench: Bench, name: str, wanted: Sequence[Peer]) -> tuple[list[Peer], list[Row]]:
    """Install peers; return those that are here, and a row for each that is not."""
    here: list[Peer] = []
    rows: list[Row] = []
    for peer in wanted:
        bench.say(f"installing {peer.name}")
        try:
            peer.environment.install()
            here.append(peer)
        except CannotInstall as error:
            rows.append(absent(f"{name}-{peer.name}", f"{peer.name} is not measured: {error}"))
    return here, rows


def _noop_rows(bench: Bench, ours: Contender, rates: dict[Contender, list[float]]) -> list[Row]:
    """Set ours against the fastest Python peer and batched graphile-worker, and show the rest."""
    python = [one for one in rates if one.peer in PYTHON_PEERS]
    if not python:
        raise CannotInstall("there is no Python peer to be measured against")
    fastest = max(python, key=lambda one: statistics.median(rates[one]))
    rows = [
        rated(
            "worker-noop",
            Bar(NOOP_BAR),
            rates[ours],
            rates[fastest],
            note=f"the fastest Python peer was {fastest.name}",
        )
    ]
    for one in rates:
        if one is ours:
            continue
        is_node = one.peer is graphile_worker.PEER
        counts = is_node and one.configuration.name == "best"
        rows.append(
            rated(
                f"noop-{one.name}",
                Bar(NODE_BAR if is_node else NOOP_BAR, counts=counts),
                rates[ours],
                rates[one],
                note=f"{one.jobs(bench):,} jobs: {one.configuration.why}",
            )
        )
    return rows

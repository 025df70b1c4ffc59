"""Worker processes that empty a full queue on PostgreSQL, beside those of the peers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from bench.compare import Bench, rated
from bench.contenders import Contender
from bench.crew import Drained, Ran, drain
from bench.peers import graphile_worker, pgqueuer, procrastinate
from bench.peers.ours import KEYED, OURS
from bench.peers.peer import CannotInstall, Peer
from bench.table import Bar, Row, absent

PYTHON_PEERS = (pgqueuer.PEER, procrastinate.PEER)
PEERS = (*PYTHON_PEERS, graphile_worker.PEER)
NOOP_BAR, NODE_BAR, KEYED_BAR = 4, 4.5, 50
KEYS = 1_000


def noop(bench: Bench) -> list[Row]:
    """Let each contender run jobs without keys that do nothing."""
    peers, rows = _installed(bench, "worker-noop", PEERS)
    ours = Contender(OURS, OURS.configurations[0])
    contenders = [Contender(peer, one) for peer in peers for one in peer.configurations]

    def measure(one: Contender) -> Drained:
        return drain(bench, one.peer, one.configuration, jobs=one.jobs(bench))

    return [*_noop_rows(bench, ours, _in_turn(bench, [ours, *contenders], measure)), *rows]


def keyed(bench: Bench) -> list[Row]:
    """Let jobs of a thousand keys run, each key's in order, beside Procrastinate's locks."""
    peers, rows = _installed(bench, "worker-1000-keys", [procrastinate.PEER])
    ours = Contender(OURS, KEYED)
    locks = [Contender(peer, peer.keyed) for peer in peers if peer.keyed]
    drained = _in_turn(bench, [ours, *locks], lambda one: in_order(bench, one))
    for one in locks:
        note = (
            f"{ours.jobs(bench):,} jobs of ours, {one.jobs(bench):,} of {one.peer.name}'s, "
            f"{KEYS:,} keys; every run of both sides in order"
        )
        rows += _compared("worker-1000-keys", Bar(KEYED_BAR), drained[ours], drained[one], note)
    return rows


def out_of_order(runs: Sequence[Ran], keys: int) -> int:
    """Count the jobs that ran after a later one of their key, over all processes."""
    latest: dict[int, int] = {}
    wrong = 0
    for _, number in runs:
        wrong += number < latest.get(number % keys, -1)
        latest[number % keys] = max(number, latest.get(number % keys, -1))
    return wrong


def in_order(bench: Bench, one: Contender) -> Drained:
    """Let a contender run jobs with keys, and insist that each ran once and in its turn."""
    jobs = one.jobs(bench)
    keys = min(KEYS, max(jobs // 2, 1))  # fewer jobs than keys have no order to keep
    done = drain(bench, one.peer, one.configuration, jobs=jobs, keys=keys, keeps_runs=True)
    if sorted(number for _, number in done.runs) != list(range(jobs)):
        raise AssertionError(f"{one.name}: what ran is not what went in")
    if wrong := out_of_order(done.runs, keys):
        raise AssertionError(f"{one.name}: {wrong} jobs ran out of order")
    return done


def peers_and_configurations() -> str:
    """Say for each peer what its configurations are."""
    return "; ".join(
        f"{peer.name} {one.name}: {one.processes} processes, {dict(one.settings) or 'no settings'}"
        for peer in (OURS, *PEERS)
        for one in peer.configurations
    )


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


def _in_turn(
    bench: Bench, contenders: Sequence[Contender], measure: Callable[[Contender], Drained]
) -> dict[Contender, list[Drained]]:
    drained: dict[Contender, list[Drained]] = {one: [] for one in contenders}
    for run in range(bench.sizes.runs):
        for one in contenders:
            bench.say(f"{one.name}, run {run + 1} of {bench.sizes.runs}")
            drained[one].append(measure(one))
    return drained


def _noop_rows(bench: Bench, ours: Contender, drained: dict[Contender, list[Drained]]) -> list[Row]:
    """Set ours against the fastest Python peer and batched graphile-worker, and show the rest."""
    python = [one for one in drained if one.peer in PYTHON_PEERS]
    if not python:
        raise CannotInstall("there is no Python peer to be measured against")
    fastest = max(python, key=lambda one: statistics.median(run.rate for run in drained[one]))
    note = f"the fastest Python peer was {fastest.name}"
    rows = _compared("worker-noop", Bar(NOOP_BAR), drained[ours], drained[fastest], note)
    for one, theirs in drained.items():
        if one is ours:
            continue
        is_node = one.peer is graphile_worker.PEER
        counts = is_node and one.configuration.name == "best"
        bar = Bar(NODE_BAR if is_node else NOOP_BAR, counts=counts)
        note = f"{one.jobs(bench):,} jobs: {one.configuration.why}"
        rows += _compared(f"noop-{one.name}", bar, drained[ours], theirs, note)
    return rows


def _compared(
    name: str, bar: Bar, ours: Sequence[Drained], theirs: Sequence[Drained], note: str
) -> list[Row]:
    """Return the row of jobs a second; if the bar counts, also that of processor time a job."""
    rows = [rated(name, bar, [run.rate for run in ours], [run.rate for run in theirs], note=note)]
    used = [run.processor_microseconds for run in ours if run.processor_microseconds]
    used_by_them = [run.processor_microseconds for run in theirs if run.processor_microseconds]
    if bar.counts and used and used_by_them:
        mine, others = statistics.median(used), statistics.median(used_by_them)
        rows.append(
            Row(
                name=f"{name}-processor",
                ours=f"{mine:,.0f} µs",
                reference=f"{others:,.0f} µs",
                ratio=others / mine,
                bar=replace(bar, counts=False),
                measured={"ours": used, "reference": used_by_them, "unit": "µs a job"},
            )
        )
    return rows

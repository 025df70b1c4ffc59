"""The command line of the contest: install, measure in turn, write the result and its plots."""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import shlex
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from bench.compare import Bench
from bench.conditions import conditions
from bench.contenders import PEERS, Contender, installed
from bench.contest import report
from bench.contest.measures import MEASURES, Measure
from bench.contest.record import Entry, Record
from bench.crew import ROOT
from bench.peers.peer import CannotInstall, Peer
from bench.peers.program import BATCH, PAYLOAD_BYTES
from bench.plots import draw_elsewhere
from bench.redis_server import redis_version
from bench.server import server
from bench.sizes import FULL, QUICK, Sizes
from tests.postgres_server import DatabaseServer

RESULTS = ROOT / "bench" / "results"
ELSEWHERE = ROOT / "build" / "bench"  # of what is not a whole run

# What the contest measures of the worker already is not measured twice.
OTHERS = (
    ("bench.engine",),
    ("bench.executor",),
    ("bench.worker", "--only", "submit", "--only", "latency", "--only", "worker-memory"),
)

DURABILITY = {
    "postgres": "synced before the answer (synchronous_commit=on)",
    "sqlite": "synced before the answer (WAL, synchronous=full)",
    "everysec": "Redis syncs its log every second: a crash loses up to that much",
    "always": "Redis syncs its log before it answers",
}

PLOTS = "plots"  # by this name they broke

Say = Callable[[str], None]


def main(name: str, *, with_others: bool) -> int:
    """Do what the command line says; return 1 if something broke."""
    asked = _parser(name).parse_args()
    sizes = QUICK if asked.quick else FULL
    is_whole = not (asked.quick or asked.only or asked.peer)
    folder = asked.results or (RESULTS if is_whole else ELSEWHERE)
    console = Console(stderr=True)
    began = time.monotonic()

    def say(step: str) -> None:
        at = time.monotonic() - began
        console.print(Text(f"{at / 60:5.1f} min  {step}", style="dim"), soft_wrap=True)

    with ended_as_if_by_hand():
        try:
            path = _contest(asked, sizes, folder, say, name, OTHERS if with_others else ())
        except KeyboardInterrupt:
            console.print("stopped; everything that was started has been ended", style="red")
            return 130
    print(f"written: {path.with_suffix('.md')}")
    broke = bool(json.loads(path.read_text())["broke"])
    return int(broke)


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: does it still work?")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        choices=[one.name for one in MEASURES],
        help=f"only this, may be repeated: {', '.join(one.name for one in MEASURES)}",
    )
    parser.add_argument(
        "--peer",
        action="append",
        metavar="NAME",
        choices=[one.name for one in PEERS],
        help=f"only this, may be repeated: {', '.join(one.name for one in PEERS)}",
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FOLDER",
        help="where to write; bench/results for a whole run, build/bench for any other",
    )
    return parser


def _contest(
    asked: argparse.Namespace,
    sizes: Sizes,
    folder: Path,
    say: Say,
    name: str,
    others: Sequence[Sequence[str]],
) -> Path:
    began = time.monotonic()
    today = datetime.now(UTC).date().isoformat()
    path = _unused(folder, today)
    part = path.with_suffix(".part.json")
    peers, absent = installed(
        [peer for peer in PEERS if not asked.peer or peer.name in asked.peer], say
    )
    with server() as on:
        record = Record(
            date=today,
            command=f"python -m {name} {shlex.join(sys.argv[1:])}".strip(),
            quick=sizes.quick,
            conditions=_conditions(sizes, on, peers),
            entries=[_entry(one) for one in _all_contenders(peers)],
            absent=absent,
        )
        bench = Bench(sizes, say, on)
        for measure in MEASURES:
            if not asked.only or measure.name in asked.only:
                take_turns(bench, measure, measure.contenders(peers), record)
                record.seconds = time.monotonic() - began
                record.write(part)
    for command in others:
        record.bars += rows_of(command, sizes, say, record)
        record.seconds = time.monotonic() - began
    record.write(part)
    part.rename(path)
    write_down(record, path, say, publishes=folder == RESULTS)
    return path


def write_down(record: Record, path: Path, say: Say, *, publishes: bool) -> None:
    """Write the result with its plots; without plots it broke, and the documentation stays."""
    try:
        record.plots = draw_elsewhere(path)
    except CannotInstall as error:
        say(str(error))
        record.broke[PLOTS] = str(error)
    record.write(path)
    report.write(record, path)
    if publishes and PLOTS not in record.broke:
        report.publish(record, path)


def take_turns(
    bench: Bench, measure: Measure, contenders: Sequence[Contender], record: Record
) -> None:
    """Let contenders take turns; one that broke is not run again."""
    found = record.found.setdefault(measure.name, {one.name: [] for one in contenders})
    runs = bench.sizes.runs

    def run_once(one: Contender) -> None:
        broken = f"{measure.name}, {one.name}"
        if broken in record.broke:
            return
        bench.say(f"{broken}, run {len(found[one.name]) + 1} of {runs}")
        try:
            found[one.name].append(measure.run(bench, one))
        except Exception as error:
            record.broke[broken] = f"{type(error).__name__}: {error}"
            found[one.name].clear()
            bench.say(traceback.format_exc())

    for _ in range(runs):
        _each(contenders, run_once, bench.sizes.at_once)


def _each(contenders: Sequence[Contender], run: Callable[[Contender], None], at_once: int) -> None:
    """Run all, one after another; only where figures say nothing, some at once."""
    if at_once == 1:
        for one in contenders:
            run(one)
        return
    pool = ThreadPoolExecutor(at_once)
    try:
        for done in [pool.submit(run, one) for one in contenders]:
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def rows_of(command: Sequence[str], sizes: Sizes, say: Say, record: Record) -> list[dict[str, Any]]:
    """Run another benchmark; return its rows, with every run."""
    say(" ".join(command))
    options = ["--json", *(["--quick"] if sizes.quick else [])]
    with subprocess.Popen(
        [sys.executable, "-m", *command, *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that Ctrl-C reaches it once, from here
    ) as other:
        try:
            said, _ = other.communicate()
        except KeyboardInterrupt:
            other.send_signal(signal.SIGINT)  # it ends what it has started; leaving waits for it
            raise
    try:
        return list(json.loads(said)["rows"])
    except ValueError:
        record.broke[command[0]] = f"ended with {other.returncode}"
        return []


def _conditions(sizes: Sizes, on: DatabaseServer, peers: Sequence[Peer]) -> dict[str, Any]:
    """Gather what a reader needs to judge the figures."""
    client = f"payload {PAYLOAD_BYTES} bytes, many are batches of {BATCH:,}"
    found = conditions(sizes, on, client=client)
    found["disk"] = str(found["disk"]).partition(", ")[2]  # where it lies is this machine's own
    found["runs"] = (
        f"{sizes.runs} of each contender in turn, the median counts; in each of `backlog`, "
        f"jobs a second are the median of {sizes.backlog_windows} windows"
    )
    if any(peer.broker == "redis" for peer in peers):
        found["redis"] = f"{redis_version()}, appendonly=yes, appendfsync as stated, save off"
    with contextlib.suppress(OSError):
        said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False)
        found["node"] = f"{said.stdout.strip()}; pg-boss brings a Node of its own"
    found["system"] = platform.platform()
    return found


def _all_contenders(peers: Sequence[Peer]) -> Iterator[Contender]:
    for peer in peers:
        for one in peer.configurations:
            yield Contender(peer, one)
        if peer.keyed is not None:
            yield Contender(peer, peer.keyed)


def _entry(one: Contender) -> Entry:
    peer, configuration = one.peer, one.configuration
    is_redis = peer.broker == "redis"
    return Entry(
        name=one.name,
        peer=peer.name,
        configuration=configuration.name,
        broker=peer.broker,
        version=peer.environment.version,
        why=configuration.why,
        processes=configuration.processes,
        settings=dict(configuration.settings),
        durability=DURABILITY[configuration.fsync if is_redis else peer.broker],
        order=peer.order,
        loss=peer.loss,
        keeps_order=peer.keyed is not None,
    )


def _unused(folder: Path, date: str) -> Path:
    """Return a path that no result has, so that none is written over."""
    number, path = 1, folder / f"{date}.json"
    while path.exists():
        number += 1
        path = folder / f"{date}-{number}.json"
    return path


@contextlib.contextmanager
def ended_as_if_by_hand() -> Iterator[None]:
    """Let SIGTERM and SIGINT do what Ctrl-C does, so that what was started is ended.

    SIGINT, too, because a script ignores it for what it starts in the background, and what is
    ignored is inherited.
    """
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, how in before.items():
            signal.signal(number, how)

"""The long runs: ``python -m tests.verify``, what ``make chaos`` does after the simulation.

On SQLite, then on a PostgreSQL of our own that is stopped and started; the reports, as text and as
JSON, are written to bench/results.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from bench.conditions import machine
from inturn.queue.app import App
from inturn.store.address import connect
from inturn.verify.faults import KINDS, NAMES
from inturn.verify.report import Report
from inturn.verify.run import Progress, Verification, Wanted
from tests.postgres_server import PostgresServer
from tests.verify.support import ServerSwitch

RESULTS = Path(__file__).parents[2] / "bench" / "results"
DRAIN_SECONDS_MAX = 600.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run on both stores, write the report, and return what to leave with."""
    parser = argparse.ArgumentParser(prog="python -m tests.verify", description=__doc__)
    parser.add_argument("--jobs", type=int, default=110_000, help="at least, on each store")
    parser.add_argument("--seconds", type=float, default=330.0, help="at least, on each store")
    parser.add_argument("--every", type=float, default=1.5, help="seconds between faults, about")
    parser.add_argument("--alone", type=float, default=6.0, help="seconds with each fault alone")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(datetime.now(UTC).timestamp()))
    parser.add_argument("--store", choices=("sqlite", "postgresql"), help="only this one")
    parser.add_argument("--results", type=Path, default=RESULTS)
    wanted = parser.parse_args(arguments)
    stores = [
        run(wanted)
        for name, run in (("sqlite", _on_sqlite), ("postgresql", _on_postgres))
        if wanted.store in (None, name)
    ]
    path = _write(wanted, stores)
    print(f"written to {path}")
    return 0 if all(report.is_good for one in stores for report in one.every()) else 1


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one store: with each fault by itself, and with all of them together."""

    alone: dict[str, Report]
    together: Report
    conditions: str  # the store, its version, and what it does for a commit to last

    def every(self) -> list[Report]:
        """Return all reports."""
        return [*self.alone.values(), self.together]


Make = Callable[[Wanted, Callable[[Progress], None]], Verification]


def _on_sqlite(wanted: argparse.Namespace) -> Ran:
    return _run(wanted, lambda made, shown: Verification(made, shown=shown), store=None)


def _on_postgres(wanted: argparse.Namespace) -> Ran:
    with PostgresServer() as server:
        server.create_database("chaos")
        url = server.url("chaos")
        asyncio.run(App(url).migrate())
        switch = ServerSwitch(server)
        return _run(
            wanted,
            lambda made, shown: Verification(made, switch=switch, shown=shown),
            store=url,
        )


def conditions_of(store: str | None) -> str:
    """Ask a store which it is, and what it does for a commit to last."""
    if store is not None:
        version, fsync, commit = asyncio.run(
            _asked(store, "show server_version", "show fsync", "show synchronous_commit")
        )
        return f"PostgreSQL {version} (fsync={fsync}, synchronous_commit={commit})"
    with tempfile.TemporaryDirectory(prefix="inturn-chaos-") as folder:
        url = f"sqlite:///{folder}/asked.db"  # like the file that each run has of its own
        questions = ("select sqlite_version()", "pragma journal_mode", "pragma synchronous")
        version, mode, level = asyncio.run(_asked(url, *questions))
    synchronous = ("off", "normal", "full", "extra")[level]
    return f"SQLite {version} (journal_mode={mode}, synchronous={synchronous})"


async def _asked(url: str, *questions: str) -> list[Any]:
    """Return the one value that each question has for an answer."""
    store = connect(url)
    try:
        await store.migrate()
        await store.open()
        async with store.transaction() as transaction:
            return [(await transaction.execute(one))[0][0] for one in questions]
    finally:
        await store.close()


def _run(wanted: argparse.Namespace, make: Make, *, store: str | None) -> Ran:
    name = "sqlite" if store is None else "postgresql"
    alone = {}
    for kind in KINDS if wanted.alone else ():
        if kind.is_for(store or "sqlite:"):
            alone[kind.name] = _run_once(
                make,
                name,
                store=store,
                seed=wanted.seed,
                jobs=None,
                seconds=wanted.alone,
                workers=wanted.workers,
                faults=(kind.name,),
                gap_seconds=0.5,
            )
    together = _run_once(
        make,
        name,
        store=store,
        seed=wanted.seed,
        jobs=wanted.jobs,
        seconds=wanted.seconds,
        workers=wanted.workers,
        faults=NAMES,
        gap_seconds=wanted.every,
    )
    return Ran(alone=alone, together=together, conditions=conditions_of(store))


def _run_once(make: Make, name: str, *, faults: tuple[str, ...], **wanted: Any) -> Report:
    folder = Path(tempfile.mkdtemp(prefix=f"inturn-chaos-{name}-"))
    is_alone = len(faults) == 1
    made = Wanted(faults=faults, drain_seconds_max=DRAIN_SECONDS_MAX, folder=folder, **wanted)
    report = asyncio.run(make(made, _told_now_and_then()).run())
    if is_alone and report.is_good:
        print(f"{name}, only {faults[0]}: {_told(report)}", flush=True)
        shutil.rmtree(folder)
    else:
        print("\n".join(report.lines()), flush=True)
        print(f"history: {folder}\n", flush=True)
    if report.missed is not None:
        print(f"{name}, only {report.missed}: {_advice(report)}", flush=True)
    return report


def _advice(report: Report) -> str:
    """Say why a fault that was to be tried alone may not have come, and what to do."""
    if report.left_out:
        needs = {kind.name: kind.needs for kind in KINDS}
        return f"it never came, for it needs {needs[report.left_out[0]]}. Give it that."
    return (
        "it never came, so that nothing is proved about it: the run was too short for it, or the "
        "machine too busy. Give each fault longer with --alone; if it does not come then either, "
        "look into processes.log beside its history."
    )


def _told(report: Report) -> str:
    if report.missed is not None:
        return f"{report.jobs:,} jobs, never came"
    faults = sum(report.faults.values()) + sum(report.handlers.values())
    return f"{report.jobs:,} jobs, {faults:,} times, {len(report.violations)} violations"


def _told_now_and_then() -> Callable[[Progress], None]:
    told_at = -1e9

    def tell(now: Progress) -> None:
        nonlocal told_at
        if now.seconds - told_at > 20:
            told_at = now.seconds
            print(
                f"{now.phase} {now.seconds:.0f} s: {now.accepted:,} accepted, "
                f"{now.unfinished:,} unfinished, {now.faults} faults",
                file=sys.stderr,
                flush=True,
            )

    return tell


def _write(wanted: argparse.Namespace, stores: list[Ran]) -> Path:
    wanted.results.mkdir(parents=True, exist_ok=True)
    path: Path = wanted.results / f"chaos-{datetime.now(UTC):%Y-%m-%d}.md"
    here = machine()
    loads = " ".join(f"{load:.1f}" for load in os.getloadavg())
    command = (
        f"python -m tests.verify --jobs {wanted.jobs} --seconds {wanted.seconds:g} "
        f"--every {wanted.every:g} --alone {wanted.alone:g} --workers {wanted.workers} "
        f"--seed {wanted.seed}" + (f" --store {wanted.store}" if wanted.store else "")
    )
    reports = [report for one in stores for report in one.every()]
    jobs, faults = sum(r.jobs for r in reports), sum(sum(r.faults.values()) for r in reports)
    seconds, found = sum(r.seconds for r in reports), sum(len(r.violations) for r in reports)
    lines = [
        f"# Chaos, {datetime.now(UTC):%Y-%m-%d}",
        "",
        f"{jobs:,} jobs, {faults:,} faults, {seconds / 60:.0f} minutes, {found} violations.",
        "",
        f"Made with `{command}`, on {here['machine']}; load at the end: {loads}.",
        "",
        f"inturn {here['inturn']}, Python {platform.python_version()}, "
        f"{', '.join(one.conditions for one in stores)}.",
    ]
    for one in stores:
        lines += ["", f"## {one.together.store}", ""]
        lines += [f"    {line}".rstrip() for line in one.together.lines()]
        if one.alone:
            lines += ["", f"Each fault by itself, {wanted.alone:g} s and the drain:", ""]
            lines += [f"- `{fault}`: {_told(report)}" for fault, report in one.alone.items()]
    shown = [msgspec.structs.replace(one.together, folder=None) for one in stores]
    text = msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()
    lines += ["", "## As JSON", "", "```json", text, "```", ""]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main())

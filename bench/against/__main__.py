"""Measure this version beside an older checkout: ``make bench-against OLD=<checkout>``."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.conditions import machine
from bench.files import empty_file
from bench.server import empty_database, server
from bench.table import Bar, Row, as_json, broken, show, show_conditions
from tests.postgres_server import DatabaseServer

HERE = Path(__file__).parent
SECONDS_MAX = 900


@dataclass(frozen=True, slots=True)
class Measure:
    """A program of this folder, where it runs, and how many times as fast each row shall be.

    A row of ``rates`` is better when it is more; any other row is a time. ``within`` names two rows
    of one run, and how many times the second the first may be.
    """

    name: str
    program: str
    bars: dict[str, Bar]
    stores: tuple[str, ...] = ("sqlite", "postgres")
    rates: bool = True
    within: tuple[tuple[str, str, float], ...] = ()


LOOKS = ("queues()", "an enqueue with depth_max", "advance_gate")

MEASURES = (
    Measure(
        "worker",
        "worker.py",
        {
            "sqlite async": Bar(1.5),
            "sqlite async keyed": Bar(1.5),
            "sqlite def": Bar(2.5),
            "sqlite def keyed": Bar(2.5),
            "postgres async": Bar(1.7),
            "postgres async keyed": Bar(1.7),
            "postgres def": Bar(3.0),
            "postgres def keyed": Bar(3.0),
        },
    ),
    Measure(
        "prune",
        "prune.py",
        {"sqlite longest enqueue beside a prune": Bar(8.0)},
        stores=("sqlite",),
        rates=False,
    ),
    Measure(
        "lists",
        "lists.py",
        {"sqlite job() beside lists": Bar(5.0)},
        stores=("sqlite",),
        rates=False,
    ),
    Measure(
        "after",
        "after.py",
        {
            "postgres 1,000 while one job waits for all": Bar(2.0),
            "postgres 10,000 steps in 100 layers": Bar(1.33),
        },
        stores=("postgres",),
        rates=False,
        within=(
            ("1,000 while one job waits for all", "1,000 leased jobs settled", 2.5),
            ("10,000 while one job waits for all", "1,000 while one job waits for all", 12.0),
        ),
    ),
    Measure(
        "lanes",
        "lanes.py",
        {
            "postgres queues(), 100,000 lanes": Bar(10.0),
            "postgres an enqueue with depth_max, 100,000 lanes": Bar(10.0),
            "postgres advance_gate, 100,000 lanes": Bar(10.0),
        },
        stores=("postgres",),
        rates=False,
        within=tuple((f"{look}, 100,000 lanes", f"{look}, 1,000 lanes", 1.5) for look in LOOKS),
    ),
    Measure(
        "pushes",
        "pushes.py",
        {"postgres 64 producers with dedupe keys": Bar(4.0)},
        stores=("postgres",),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.against", description=__doc__)
    parser.add_argument("old", type=Path, help="the other checkout, with a .venv of its own")
    parser.add_argument("--only", action="append", help="measure this alone; repeat for more")
    parser.add_argument("--store", choices=("sqlite", "postgres"), help="on this store alone")
    parser.add_argument("--runs", type=int, default=3, help="of each version in turn")
    parser.add_argument("--json", action="store_true", help="print every run as JSON")
    asked = parser.parse_args(arguments)
    interpreters = {"ours": Path(sys.executable), "old": asked.old / ".venv" / "bin" / "python"}
    if not interpreters["old"].exists():
        parser.error(f"{asked.old} has no .venv: run `make setup` there")
    chosen = [one for one in MEASURES if not asked.only or one.name in asked.only]
    rows: list[Row] = []
    with ExitStack() as stack:
        stores = (asked.store,) if asked.store else ("sqlite", "postgres")
        needs_server = "postgres" in stores and any("postgres" in one.stores for one in chosen)
        on = stack.enter_context(server()) if needs_server else None
        for measure in chosen:
            for store in stores:
                if store in measure.stores:
                    rows += _rows(measure, store, on, interpreters, asked.runs)
    found = machine() | {"old": str(_commit(asked.old)), "runs": f"{asked.runs} of each in turn"}
    if asked.json:
        print(as_json(found, rows))
    else:
        console = Console(width=170)
        show_conditions(console, found)
        show(console, rows, quick=False)
    return int(any(row.missed for row in rows))


def _rows(
    measure: Measure,
    store: str,
    on: DatabaseServer | None,
    interpreters: dict[str, Path],
    runs: int,
) -> list[Row]:
    """Run a measure with both versions in turn; return a row for each number it prints."""
    found: dict[str, list[dict[str, float]]] = {side: [] for side in interpreters}
    try:
        for run in range(runs):
            for side in ("old", "ours") if run % 2 == 0 else ("ours", "old"):
                with _empty(store, on) as url:
                    print(f"{measure.name} on {store}, {side}, {run + 1}", file=sys.stderr)
                    found[side].append(_run(interpreters[side], measure.program, url))
    except Exception as error:
        return [broken(f"{store} {measure.name}", error)]
    rows = []
    for name in found["old"][0]:
        ours, old = ([one[name] for one in found[side]] for side in ("ours", "old"))
        mine, theirs = statistics.median(ours), statistics.median(old)
        unit = "/s" if measure.rates else " ms"
        rows.append(
            Row(
                name=f"{store} {name}",
                ours=f"{mine:,.0f}{unit}" if mine >= 100 else f"{mine:,.2f}{unit}",
                reference=f"{theirs:,.0f}{unit}" if theirs >= 100 else f"{theirs:,.2f}{unit}",
                ratio=mine / theirs if measure.rates else theirs / mine,
                bar=measure.bars.get(f"{store} {name}", Bar(0.95, counts=False)),
                measured={"ours": ours, "old": old},
            )
        )
    for name, of, most in measure.within:
        ratios = [one[name] / one[of] for one in found["ours"]]
        mine, beside = (statistics.median(one[row] for one in found["ours"]) for row in (name, of))
        rows.append(
            Row(
                name=f"{store} {name}: of {of}",
                ours=f"{mine:,.2f} ms",
                reference=f"{beside:,.2f} ms",
                ratio=statistics.median(ratios),
                bar=Bar(at_most=most),
                measured={"ratios": ratios},
            )
        )
    return rows


def _run(interpreter: Path, program: str, url: str) -> dict[str, float]:
    """Run a program on one version's interpreter, away from both checkouts."""
    environment = {
        name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ
    }
    with tempfile.TemporaryDirectory(prefix="inturn-bench-") as folder:
        done = subprocess.run(
            [interpreter, HERE / program, url],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
    if done.returncode:
        raise RuntimeError(f"{program}: {done.stderr[-800:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def _empty(store: str, on: DatabaseServer | None) -> Iterator[str]:
    if store == "postgres":
        assert on is not None
        with empty_database(on) as url:
            yield url
    else:
        with empty_file() as path:
            yield f"sqlite:///{path}"


def _commit(checkout: Path) -> str:
    asked = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())

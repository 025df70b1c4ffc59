"""Polling and schedules: ``python -m bench.poll [--quick] [--json] [--only NAME]``."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from bench.command import Command, Measurement
from bench.compare import Bench, in_turn, rated
from bench.conditions import conditions
from bench.files import empty_file
from bench.items_server import ROOT, items_server
from bench.server import empty_database
from bench.table import Bar, Row

PAGE_ITEMS = 100
WARM_SECONDS = 5.0
EARLY_PART = 5  # of a catch-up, after which memory is looked at first
MEMORY_NOTES = {
    "postgres": "at the end, against after a fifth of the pages",
    "sqlite": "at the end, against after a fifth of the pages; meanwhile SQLite's page cache of "
    "32 MiB fills",
}

SCHEDULED = """
import inturn

app = inturn.App("sqlite:///work.db")

@app.job
def report(number: int) -> None:
    pass

for number in range({schedules}):
    app.every("1h", arguments={{"number": number}}, name=f"report {{number}}")(report)
"""


def side_of(side: str, items: int, store: str) -> dict[str, Any]:
    with items_server(items, PAGE_ITEMS) as outside:
        command = [sys.executable, "-m", "bench.poll_side", side, outside, store]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def catch_up(bench: Bench, *, side: str, store: str, bar: Bar) -> list[Row]:
    """Follow an outside system from the beginning, against fetching alone."""
    items = bench.sizes.poll_items
    grown: list[list[float]] = []

    def measure(measured: str) -> float:
        if measured == "reference":
            return items / float(side_of("bare", items, "")["seconds"])
        if store == "postgres":
            with empty_database(bench.server) as url:
                found = side_of(side, items, url)
        else:
            with empty_file() as path:
                found = side_of(side, items, f"sqlite:///{path}")
        assert found["items"] == items
        grown.append(found["megabytes"])
        return items / float(found["seconds"])

    found = in_turn(bench, measure)
    name = f"{side}-{store}"
    note = f"{items:,} items over HTTP on loopback in pages of {PAGE_ITEMS}"
    rows = [rated(name, bar, found["ours"], found["reference"], note=note, items=items)]
    if side == "shadow":
        early = statistics.median(one[len(one) // EARLY_PART] for one in grown)
        last = statistics.median(one[-1] for one in grown)
        rows.append(
            Row(
                name=f"{name}-memory",
                ours=f"{last:.0f} MB",
                reference=f"{early:.0f} MB",
                ratio=last / early,
                bar=Bar(at_most=1.1),
                note=MEMORY_NOTES[store],
                measured={"megabytes": grown},
            )
        )
    return rows


def idle(bench: Bench) -> list[Row]:
    """Let a source that has nothing new be read every second."""
    with empty_file() as path:
        found = side_of("idle", 1_000, f"sqlite:///{path}")
    unchanged = "as they were" if found["is_as_before"] else "changed"
    ratio = found["requests"] / found["runs"] if found["is_as_before"] else float("inf")
    return [
        Row(
            name="idle-source",
            ours=f"{found['requests']} requests",
            reference=f"{found['runs']} periods",
            ratio=ratio,
            bar=Bar(at_most=1.0),
            note=f"its tables are {unchanged}",
            measured=found,
        )
    ]


def schedules(bench: Bench) -> list[Row]:
    """Let a worker have nothing to do, with 1,000 schedules and without."""
    seconds = bench.sizes.idle_seconds
    share = {number: _idle_share(number, seconds) for number in (0, 1_000)}
    cost = (share[1_000] - share[0]) * 100
    return [
        Row(
            name="1000-schedules",
            ours=f"{share[1_000] * 100:.2f} %",
            reference=f"{share[0] * 100:.2f} %",
            ratio=cost,
            bar=Bar(at_most=1.0, unit=" %"),
            note="of a core, of an idle worker on SQLite; the cost is the difference",
            measured={"seconds": seconds, "share": {str(n): one for n, one in share.items()}},
        )
    ]


def _idle_share(number: int, seconds: float) -> float:
    """Return what part of a core a worker with so many schedules takes."""
    with tempfile.TemporaryDirectory(prefix="inturn-bench-") as folder:
        Path(folder, "idle.py").write_text(SCHEDULED.format(schedules=number))
        command = [sys.executable, "-m", "inturn", "work", "idle:app"]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
            time.sleep(WARM_SECONDS)
            before = _processor_seconds(process.pid)
            time.sleep(seconds)
            used = _processor_seconds(process.pid) - before
            process.terminate()
    return used / seconds


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


HALF = Bar(0.5)
MEASUREMENTS = (
    Measurement(
        "shadow-sqlite", partial(catch_up, side="shadow", store="sqlite", bar=HALF), postgres=False
    ),
    Measurement("shadow-postgres", partial(catch_up, side="shadow", store="postgres", bar=HALF)),
    Measurement(
        "changes-sqlite",
        partial(catch_up, side="changes", store="sqlite", bar=Bar(0.1, counts=False)),
        postgres=False,
    ),
    Measurement("idle-source", idle, postgres=False),
    Measurement("1000-schedules", schedules, postgres=False),
)

if __name__ == "__main__":
    sys.exit(Command("bench.poll", __doc__, MEASUREMENTS, conditions).run())

"""The conditions of a run: machine, versions, settings, and how long this disk takes to sync."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import sqlite3
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.server import settings
from bench.sizes import BATCH, CONNECTIONS, PAYLOAD_BYTES, PROCESSES, Sizes
from tests.postgres_server import DatabaseServer

CLIENT = (
    f"payload {PAYLOAD_BYTES} bytes, batches of {BATCH}, "
    f"{PROCESSES} consumer processes with {CONNECTIONS} connections each"
)


def machine() -> dict[str, Any]:
    """Gather what every figure depends on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"{memory / 2**30:.0f} GiB, {_processor()}",
        "inturn": version(),
        "load before": f"{os.getloadavg()[0]:.1f} (another's work shows here and in the figures)",
    }


def conditions(sizes: Sizes, on: DatabaseServer | None, *, client: str = CLIENT) -> dict[str, Any]:
    """Gather what a reader needs to judge the figures."""
    found: dict[str, Any] = machine() | {
        "disk": f"{tempfile.gettempdir()}, {_sync_milliseconds():.2f} ms to write 8 KiB and sync",
        "python": f"{platform.python_version()}, asyncpg {importlib.metadata.version('asyncpg')}",
        "sqlite": f"{sqlite3.sqlite_version}, journal_mode=wal, synchronous=full, both sides",
    }
    if on is not None:
        told = settings(on)
        version = told.pop("server_version")
        found["postgresql"] = f"{version}, " + ", ".join(f"{k}={v}" for k, v in told.items())
    found["client"] = client
    found["runs"] = f"{sizes.runs} of each side in turn, the median counts"
    found["quick"] = sizes.quick
    return found


def version() -> str:
    """Return which inturn this is, to the commit if that is known."""
    told = importlib.metadata.version("inturn")
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
        said = subprocess.run(asked, capture_output=True, text=True, check=True)
        told += f", commit {said.stdout.strip()}"
    return told


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(": ")[2]
    return platform.processor() or "processor unknown"


def _sync_milliseconds() -> float:
    """Measure what a durable write costs where the databases will be."""
    with tempfile.TemporaryDirectory(prefix="inturn-bench-") as folder:
        file = os.open(Path(folder) / "probe", os.O_CREAT | os.O_WRONLY)
        took = []
        for _ in range(30):
            began = time.perf_counter()
            os.write(file, b"x" * 8192)
            os.fsync(file)
            took.append(time.perf_counter() - began)
        os.close(file)
    return statistics.median(took) * 1000

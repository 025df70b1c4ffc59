"""Worker processes of one side on a full queue: started together, timed to the last settle."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench.compare import Bench
from bench.peers.peer import Configuration, Peer
from bench.processor import used_by_server, used_seconds
from bench.server import empty_database, tidy

ROOT = Path(__file__).parent.parent
READY_SECONDS_MAX = 60.0
DRAIN_SECONDS_MAX = 300.0
STOP_SECONDS_MAX = 10.0
LOOK_SECONDS = 0.005

Ran = tuple[int, int]
"""When a handler ran, on the clock that processes share, and the number of its job."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What came of a full queue."""

    jobs: int
    seconds: float
    processor_seconds: float | None  # of the workers and the server; None if that is elsewhere
    runs: list[Ran] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return self.jobs / self.seconds

    @property
    def processor_microseconds(self) -> float | None:
        """Processor time a job."""
        used = self.processor_seconds
        return None if used is None else used / self.jobs * 1e6


class Crew:
    """Worker processes, which tell of themselves in a folder."""

    def __init__(self, folder: Path, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self.folder, self.processes = folder, processes

    def await_files(self, name: str, seconds_max: float = READY_SECONDS_MAX) -> list[Path]:
        """Wait until each process has written a file; return the files."""
        give_up_at = time.monotonic() + seconds_max
        while len(found := list(self.folder.glob(f"*.{name}"))) < len(self.processes):
            self.insist_on_life()
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"{len(found)} of {len(self.processes)} wrote {name!r}")
            time.sleep(LOOK_SECONDS)
        return found

    def go(self) -> float:
        """Let all begin; return when."""
        self.await_files("ready")
        began_at = time.monotonic()
        (self.folder / "go").touch()
        return began_at

    def count(self) -> int:
        """Return how many handlers have run."""
        return sum(int(file.read_text() or 0) for file in self.folder.glob("*.count"))

    def stop(self) -> list[Ran]:
        """Let all write down their runs; return them in the order of their times."""
        (self.folder / "stop").touch()
        runs: list[Ran] = []
        for file in self.await_files("runs"):
            for line in file.read_text().splitlines():
                at, number = line.split()
                runs.append((int(at), int(number)))
        return sorted(runs)

    def insist_on_life(self) -> None:
        """Raise if a process has ended."""
        for process in self.processes:
            if process.poll() is not None:
                raise RuntimeError(f"a worker process ended with {process.returncode}")


@contextlib.contextmanager
def crew(
    command: Sequence[str], url: str, processes: int, *, keeps_runs: bool = False
) -> Iterator[Crew]:
    """Start processes, and end them at the end."""
    with tempfile.TemporaryDirectory(prefix="inturn-bench-") as folder:
        environment = os.environ | {"BENCH_FOLDER": folder, "INTURN_STORE": url}
        if keeps_runs:
            environment["BENCH_KEEPS_RUNS"] = "1"
        with (Path(folder) / "output").open("wb") as output:
            started = [
                subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
                for _ in range(processes)
            ]
        try:
            yield Crew(Path(folder), started)
        except Exception as error:
            error.add_note((Path(folder) / "output").read_text()[-2_000:])
            raise
        finally:
            _end(started)


def drain(
    bench: Bench,
    peer: Peer,
    configuration: Configuration,
    *,
    jobs: int,
    keys: int = 0,
    keeps_runs: bool = False,
) -> Drained:
    """Fill a queue and let a peer's workers empty it; each handler must run once for each job."""
    program = peer.environment.install()
    with empty_database(bench.server) as url:
        filled = subprocess.run(
            peer.fill_command(program, url, jobs, keys),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if filled.returncode:
            raise RuntimeError(f"{peer.name} could not be filled:\n{filled.stderr[-2_000:]}")
        tidy(url)
        command = peer.work_command(program, url, configuration)
        with crew(command, url, configuration.processes, keeps_runs=keeps_runs) as workers:
            workers.await_files("ready")
            used_before = _used(workers, url)
            began_at = workers.go()
            ended_at = _await_last_settle(workers, url, peer, jobs, began_at + DRAIN_SECONDS_MAX)
            used = _used(workers, url)
            count, runs = workers.count(), workers.stop()
    if count != jobs:
        raise AssertionError(f"{peer.name}: {jobs} jobs went in, and handlers ran {count} times")
    processor_seconds = None if used is None or used_before is None else used - used_before
    return Drained(jobs, ended_at - began_at, processor_seconds, runs)


def _used(workers: Crew, url: str) -> float | None:
    """Return the processor time that the workers and the server have used so far."""
    server = used_by_server(url)
    if server is None:
        return None
    return server + sum(used_seconds(process.pid) for process in workers.processes)


def _await_last_settle(workers: Crew, url: str, peer: Peer, jobs: int, give_up_at: float) -> float:
    """Ask the database only when all handlers have run: asking costs it something."""
    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            if workers.count() >= jobs:
                row = connection.execute(peer.unfinished.encode()).fetchone()
                if row is not None and row[0] == 0:
                    return time.monotonic()
            workers.insist_on_life()
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"{peer.name}: {workers.count()} of {jobs} jobs were run")
            time.sleep(LOOK_SECONDS)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

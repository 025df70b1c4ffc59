"""Worker processes of one side on a full queue: started together, timed to the last settle."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.compare import Bench
from bench.footprint import footprint
from bench.peers.peer import Configuration, Peer
from bench.peers.tally import JOURNAL, RECORD, count_runs
from bench.places import Place, place
from bench.processor import used_by_session

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
    left: dict[str, float] = field(default_factory=dict)  # in PostgreSQL, for each job

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
        return count_runs(self.folder)

    def stop(self) -> list[Ran]:
        """Let all write down their runs; return them in the order of their times."""
        (self.folder / "stop").touch()
        journal = self.folder / JOURNAL
        if journal.exists():
            whole = journal.stat().st_size // RECORD.size * RECORD.size
            return sorted(RECORD.iter_unpack(journal.read_bytes()[:whole]))
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
        environment = surroundings(folder, url)
        if keeps_runs:
            environment["BENCH_KEEPS_RUNS"] = "1"
        started: list[subprocess.Popen[bytes]] = []
        try:
            with (Path(folder) / "output").open("wb") as output:
                for _ in range(processes):
                    started.append(
                        subprocess.Popen(
                            command,
                            cwd=ROOT,
                            env=environment,
                            stdout=output,
                            stderr=output,
                            start_new_session=True,  # so that its children can be ended with it
                        )
                    )
            yield Crew(Path(folder), started)
        except Exception as error:
            error.add_note((Path(folder) / "output").read_text()[-2_000:])
            raise
        finally:
            end(started)


def surroundings(folder: str | Path, url: str) -> dict[str, str]:
    """Return the environment variables of a peer's program that knows of a crew."""
    return os.environ | {"BENCH_FOLDER": str(folder), "INTURN_STORE": url}


def prepare(peer: Peer, program: Sequence[str], url: str, keys: int = 0) -> None:
    """Let a peer make its tables."""
    tell(peer, peer.prepare_command(program, url, keys))


def fill(peer: Peer, program: Sequence[str], where: Place, jobs: int, keys: int = 0) -> None:
    """Let a peer make its tables and enqueue jobs."""
    prepare(peer, program, where.url, keys)
    tell(peer, peer.fill_command(program, where.url, jobs, keys))
    where.tidy()


def tell(peer: Peer, command: Sequence[str], seconds_max: float | None = None) -> str:
    """Run a command of a peer's program to its end; return what it printed."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds_max
    )
    if done.returncode:
        raise RuntimeError(f"{peer.name}: {list(command)[-4:]}\n{done.stderr[-2_000:]}")
    return done.stdout


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
    with place(bench, peer, configuration.fsync) as where:
        fill(peer, program, where, jobs, keys)
        before = footprint(where.url) if peer.broker == "postgres" else None
        command = peer.work_command(program, where.url, configuration)
        with crew(command, where.url, configuration.processes, keeps_runs=keeps_runs) as workers:
            workers.await_files("ready")
            used_before = used_seconds(workers, where)
            began_at = workers.go()
            ended_at = _await_last_settle(workers, where, peer, jobs, began_at + DRAIN_SECONDS_MAX)
            used = used_seconds(workers, where)
            count, runs = workers.count(), workers.stop()
        left = footprint(where.url).since(before, jobs) if before is not None else {}
    if count != jobs:
        raise AssertionError(f"{peer.name}: {jobs} jobs went in, and handlers ran {count} times")
    processor_seconds = None if used is None or used_before is None else used - used_before
    return Drained(jobs, ended_at - began_at, processor_seconds, runs, left)


def used_seconds(workers: Crew, where: Place) -> float | None:
    """Return the processor time that the workers and the server have used so far."""
    server = where.used_seconds()
    if server is None:
        return None
    return server + sum(used_by_session(process.pid) for process in workers.processes)


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes and what they have started."""
    for process in processes:
        process.terminate()
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS_MAX)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await_last_settle(
    workers: Crew, where: Place, peer: Peer, jobs: int, give_up_at: float
) -> float:
    """Ask the place only when all handlers have run: asking costs it something."""
    while True:
        if workers.count() >= jobs and where.count(peer.unfinished) == 0:
            return time.monotonic()
        workers.insist_on_life()
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{peer.name}: {workers.count()} of {jobs} jobs were run")
        time.sleep(LOOK_SECONDS)

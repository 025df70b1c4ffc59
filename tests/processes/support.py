"""Worker processes to start, stop and kill, and what they did, seen from outside."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

import psycopg

from inturn.model.job import JobState
from inturn.model.worker import WorkerView
from inturn.queue.job import Call
from inturn.store.address import connect
from inturn.store.store import Store
from inturn.worker.stop_signals import SAME_SECONDS
from tests.cli.support import COMMAND, INHERITED

ROOT = Path(__file__).parents[2]
APP = "tests.processes.jobs:app"
PATIENT = "tests.processes.patient:app"
TIMED = "tests.processes.timed:app"
SECONDS_MAX = 100.0  # for anything that could hang, on a machine that is busy

Answer = TypeVar("Answer")


class Effect(NamedTuple):
    """What a job wrote: a verb, which job, a number, and the process it ran in."""

    verb: str
    name: str
    number: int
    pid: int


def until(condition: Callable[[], Answer], seconds: float = SECONDS_MAX) -> Answer:
    """Wait until something is so, and return it."""
    give_up_at = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < give_up_at, f"it was not so within {seconds:g} s"
        time.sleep(0.01)
    return found


class WorkerProcess:
    """``inturn work`` as a process; its events are read from what it prints."""

    def __init__(self, place: Place, number: int, target: str, *arguments: str) -> None:
        self._out, self._err = (place.folder / f"{name}-{number}" for name in ("out", "err"))
        self.name = f"w{number}"
        self._signalled_at: dict[signal.Signals, float] = {}
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*COMMAND, "work", target, "--json", "--name", self.name, *arguments],
                cwd=ROOT,
                env=place.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def errors(self) -> str:
        return self._err.read_text()

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        lines = self._out.read_text().splitlines(keepends=True)
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return [event for event in found if kind in (None, event["event"])]

    def heard(self, kind: str) -> dict[str, Any]:
        """Wait for an event."""

        def found() -> list[dict[str, Any]]:
            return self.events(kind) or self._fail_if_ended()

        return until(found)[0]

    def signal(self, number: signal.Signals, *, at_once: bool = False) -> None:
        """Send a signal; the same again later than within a moment, unless ``at_once``."""
        if not at_once and number in self._signalled_at:
            moment_over = self._signalled_at[number] + 2 * SAME_SECONDS.get(number, 0.0)
            time.sleep(max(0.0, moment_over - time.monotonic()))
        self.process.send_signal(number)
        self._signalled_at[number] = time.monotonic()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def ended(self, seconds: float = SECONDS_MAX) -> int:
        """Wait for the end, and return what it left with."""
        return self.process.wait(seconds)

    def _fail_if_ended(self) -> list[dict[str, Any]]:
        if self.process.poll() is not None and not self.events():
            raise AssertionError(f"it ended with {self.process.returncode}: {self.errors}")
        return []


class Place:
    """A store, a folder, and the workers that were started there."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.workers: list[WorkerProcess] = []
        self.environment = {
            **INHERITED,
            "INTURN_STORE": url,
            "INTURN_TEST_FOLDER": str(folder),
        }

    def work(self, *arguments: str, target: str = APP) -> WorkerProcess:
        """Start a worker and wait until it works."""
        worker = self.start(*arguments, target=target)
        worker.heard("started")
        return worker

    def start(self, *arguments: str, target: str = APP) -> WorkerProcess:
        worker = WorkerProcess(self, len(self.workers) + 1, target, *arguments)
        self.workers.append(worker)
        return worker

    def close(self) -> None:
        """Kill what is left; the processes of a crew end when their parent and their jobs do."""
        (self.folder / "end").touch()
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.signal(signal.SIGCONT)
                worker.kill()

    def stop(self, pid: int) -> None:
        """Let a process stand still, at a moment when it does not keep a file locked.

        Nobody can write to a SQLite file while the process that writes to it stands still.
        """
        while True:
            os.kill(pid, signal.SIGSTOP)
            if not self._is_locked():
                return
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.01)

    # The store, past the workers

    def _is_locked(self) -> bool:
        if (file := urlsplit(self.url)).scheme != "sqlite":
            return False
        with closing(sqlite3.connect(file.path, timeout=2.0, isolation_level=None)) as writer:
            try:
                writer.execute("begin immediate")
            except sqlite3.OperationalError:
                return True
        return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let nobody be told anything of leases, by a transaction that is open for a moment."""
        if (file := urlsplit(self.url)).scheme == "sqlite":
            with closing(sqlite3.connect(file.path, isolation_level=None)) as writer:
                writer.execute("begin immediate")
                yield
        else:
            with psycopg.connect(self.url) as connection:
                connection.execute("lock table inturn.lease")
                yield

    def store(self, verb: Callable[[Store], Awaitable[Answer]]) -> Answer:
        async def opened() -> Answer:
            store = connect(self.url)
            try:
                await store.open()
                return await verb(store)
            finally:
                await store.close()

        return asyncio.run(opened())

    def submit(self, *calls: Call[Any]) -> None:
        self.store(lambda store: store.enqueue([call.new for call in calls]))

    def states(self) -> list[JobState]:
        page = self.store(lambda store: store.jobs(rows_max=1_000))
        return [view.state for view in page.rows]

    def until_done(self) -> None:
        """Wait until no job waits, runs or is to run again; none may be dead."""
        until(lambda: not self.left())
        [status] = self.store(lambda store: store.queues())
        assert status.dead == 0
        assert self.store(lambda store: store.check()) == []

    def left(self) -> int:
        found = self.store(lambda store: store.queues())
        return sum(
            one.waiting + one.running + one.retrying + one.scheduled + one.blocked for one in found
        )

    def running(self) -> int:
        return sum(one.running for one in self.store(lambda store: store.queues()))

    def views(self) -> list[WorkerView]:
        return self.store(lambda store: store.workers())

    def until_prolonged(self) -> None:
        """Wait until the lease of every job that runs has been prolonged."""
        before = self.leases()
        assert before
        until(lambda: all(end > before[job] for job, end in self.leases().items()))

    def leases(self) -> dict[UUID, datetime]:
        """Return until when each job that runs is leased."""
        running = self.store(lambda store: store.jobs(state=JobState.RUNNING))
        return {one.job.id: one.leased_until for one in running.rows if one.leased_until}

    # Effects

    def effects(self, verb: str | None = None, name: str | None = None) -> list[Effect]:
        try:
            lines = (self.folder / "effects").read_text().splitlines()
        except FileNotFoundError:
            return []
        found = [
            Effect(said, of, int(number), int(pid))
            for said, of, number, pid in map(str.split, lines)
        ]
        return [one for one in found if verb in (None, one.verb) and name in (None, one.name)]

    def who_ran(self, workers: Sequence[WorkerProcess]) -> WorkerProcess:
        """Wait until one of some workers has had an effect, and return it."""

        def found() -> list[WorkerProcess]:
            pids = {one.pid for one in self.effects()}
            return [worker for worker in workers if worker.pid in pids]

        return until(found)[0]

    def began(self, name: str, times: int = 1) -> Effect:
        """Wait until a job has begun so often, and return the last time."""
        return until(lambda: self.effects("began", name)[times - 1 :])[0]

    def last_effect_at(self) -> float:
        """Return when something was written last, as ``time.time`` tells it."""
        return (self.folder / "effects").stat().st_mtime

    def late_seconds(self, worker: WorkerProcess) -> float:
        """Return for how long the machine has held up a worker of ``TIMED``, all in all."""
        lines = (self.folder / f"late-{worker.pid}").read_text().splitlines(keepends=True)
        return sum(float(line) for line in lines if line.endswith("\n"))

    def let_end(self, *names: str, pid: int | None = None) -> None:
        """Let jobs that hold end: everywhere, or in one process."""
        for name in names:
            (self.folder / (f"end-{name}" if pid is None else f"end-{name}-{pid}")).touch()


def is_gone(pid: int) -> bool:
    """Whether a process has ended, if only its parent has not asked for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # before it was opened, or before it was read
        return True


def is_in_turn(effects: Sequence[Effect], step: int = 1) -> bool:
    """Whether each number came after the one before it.

    What a worker had done and not yet said when it was killed is run again elsewhere, in order.
    """
    return all(
        after.number == before.number + step
        or (after.pid != before.pid and after.number <= before.number)
        for before, after in pairwise(effects)
    )


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and not waited for."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(one) for one in listed.split()]

"""A run: producers and workers as processes, faults while they work, then everything drained."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import psycopg

from inturn import App
from inturn.model.job import JobState, JobView
from inturn.store.store import Store
from tests.chaos.judge import Final, Judge
from tests.chaos.log import Log, Started, Struck
from tests.postgres_server import PostgresServer

ROOT = Path(__file__).parents[2]
LEASE_SECONDS = 5.0
WORKERS, PRODUCERS = 3, 2
LEFT_MAX = 50  # no more faults when so few jobs are left
DRAIN_SECONDS_MAX = 180.0
STOP_SECONDS_MAX = 30.0


@dataclass
class Member:
    """One place among the processes, and who is in it now."""

    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    is_over: bool = False

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass
class Run:
    """What is run: where, how many jobs of which mix, with which faults how often."""

    url: str
    folder: Path
    faults: list[str]
    server: PostgresServer | None = None
    jobs: int = 10_000
    mix: str = "mixed"
    every_seconds: float = 2.0
    seed: int = 0
    workers: list[Member] = field(default_factory=list)
    producers: list[Member] = field(default_factory=list)

    async def go(self) -> str:
        """Run, judge, and say in a line how it went. Raises ``AssertionError`` if it went wrong."""
        began_at = time.monotonic()
        self.log, self.random = Log(self.folder / "log"), Random(self.seed)
        app = App(self.url)
        await app.migrate()
        async with app:
            await app.run(
                lambda store: execute(store, "create table paid (job text, token bigint)")
            )
            self.recruit()
            keeping = asyncio.create_task(self.keep())
            try:
                await self.strike(app)
                drained = await self.drain(app)
                await self.stop()
            finally:
                keeping.cancel()
                for member in (*self.workers, *self.producers):
                    if member.process is not None:
                        member.process.kill()
                        member.process.wait()
            final = await last_word(app)
        lines = self.log.lines()
        said = list(Judge(lines, final).sentences())
        assert drained, "jobs are left that nobody runs"
        assert not said, "\n".join(said[:20])
        faults = Counter(line.fault for line in lines if isinstance(line, Struck))
        starts = sum(isinstance(line, Started) for line in lines)
        struck = ", ".join(f"{count} {name}" for name, count in sorted(faults.items()))
        return (
            f"{len(final.views):,} jobs ({self.mix}) in {time.monotonic() - began_at:.0f} s, "
            f"{starts:,} attempts; {struck}; 0 lost, 0 out of order, seed {self.seed}"
        )

    def recruit(self) -> None:
        share = str(self.jobs // PRODUCERS)
        for number in range(PRODUCERS):
            arguments = [str(number), str(self.seed), share, self.mix]
            self.producers.append(Member(["tests.chaos.producer", *arguments]))
        for _ in range(WORKERS):
            lease = ["--lease", f"{LEASE_SECONDS}s", "--sweep", "500ms"]
            command = ["inturn.cli.main", "work", "tests.chaos.jobs:app", *lease]
            self.workers.append(Member(command))

    async def keep(self) -> None:
        """Fill every place whose process has died."""
        while True:
            for member in (*self.workers, *self.producers):
                code = member.process.poll() if member.process is not None else -1
                if code and not member.is_over:
                    member.process = self.spawn(member.command)
            await asyncio.sleep(0.05)

    def spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "INTURN_STORE": self.url,
            "INTURN_CHAOS_FOLDER": str(self.folder),
        }
        with (self.folder / "processes.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *command],
                env=environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the run, which then ends them
            )

    # Faults

    async def strike(self, app: App) -> None:
        """Let faults happen, one after another, until hardly a job is left."""
        begun: set[int] = set()
        while len(begun) < WORKERS:
            await asyncio.sleep(0.2)
            begun = {line.pid for line in self.log.lines() if isinstance(line, Started)}
        while not self.is_produced or await unfinished(app) > LEFT_MAX:
            await asyncio.sleep(self.every_seconds * self.random.uniform(0.5, 1.5))
            await FAULTS[self.random.choice(self.faults)](self)

    @property
    def is_produced(self) -> bool:
        return all(one.process is not None and one.process.poll() == 0 for one in self.producers)

    def struck(self, fault: str, member: Member | None = None) -> int:
        pid = member.process.pid if member is not None and member.process is not None else None
        self.log.write(Struck(fault=fault, struck=pid))
        return pid or 0

    async def kill_worker(self) -> None:
        await self.kill("kill-worker", self.workers)

    async def kill_producer(self) -> None:
        await self.kill("kill-producer", self.producers)

    async def kill(self, fault: str, members: list[Member]) -> None:
        if alive := [member for member in members if member.is_alive]:
            os.kill(self.struck(fault, self.random.choice(alive)), signal.SIGKILL)

    async def stop_worker(self) -> None:
        """Let a worker stand still for longer than its lease: others take its jobs meanwhile.

        On SQLite it may hold the file's only lock, and so bring all others to a stand, too.
        """
        if alive := [member for member in self.workers if member.is_alive]:
            member = self.random.choice(alive)
            process, struck = member.process, None if self.server is None else member
            assert process is not None
            self.struck("stop-worker", struck)
            process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(LEASE_SECONDS + 2.0)
            process.send_signal(signal.SIGCONT)
            self.struck("stop-worker", struck)

    async def kill_backend(self) -> None:
        self.struck("kill-backend")
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from (select pid from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid() "
                "order by random() limit 3) few"
            )

    async def stop_server(self) -> None:
        assert self.server is not None
        self.struck("stop-server")
        await asyncio.to_thread(self.server.stop, self.random.choice(("fast", "immediate")))
        await asyncio.sleep(self.random.uniform(0.0, 2.0))
        await asyncio.to_thread(self.server.start)
        self.struck("stop-server")

    # The end

    async def drain(self, app: App) -> bool:
        """Wait until every job has ended."""
        give_up_at = time.monotonic() + DRAIN_SECONDS_MAX
        while time.monotonic() < give_up_at:
            if not await unfinished(app):
                return True
            await asyncio.sleep(0.3)
        return False

    async def stop(self) -> None:
        """Stop the workers as a supervisor does: they leave with 0, if they had begun."""
        for member in self.workers:
            member.is_over = True
            if member.process is not None:
                member.process.terminate()
                code = await asyncio.to_thread(member.process.wait, STOP_SECONDS_MAX)
                assert code <= 0, (
                    f"a worker left with {code}"
                )  # or it was killed, or had just begun


async def unfinished(app: App) -> int:
    return sum(
        one.waiting + one.running + one.scheduled + one.retrying + one.blocked
        for one in await app.run(lambda store: store.queues())
    )


async def execute(store: Store, statement: str) -> list[tuple[Any, ...]]:
    async with store.transaction() as transaction:
        return await transaction.execute(statement)


async def last_word(app: App) -> Final:
    """Ask the store what became of every job, and under which lease."""
    views: dict[UUID, JobView] = {}
    cursor: str | None = None
    while True:
        page = await app.run(lambda store: store.jobs(cursor=cursor, rows_max=1000))
        views |= {view.job.id: view for view in page.rows}
        if (cursor := page.cursor) is None:
            break
    settled: dict[UUID, list[int]] = defaultdict(list)
    for id, token in await app.run(lambda store: execute(store, "select job, token from paid")):
        settled[UUID(id)].append(token)
    store = await app.lend()
    for id, view in views.items():
        if view.state is JobState.DONE and (result := await store.result(id)):
            settled[id].append(int(result))
    complaints = await app.run(lambda store: store.check())
    return Final(views=views, settled=settled, complaints=complaints)


FAULTS: dict[str, Callable[[Run], Awaitable[None]]] = {
    "kill-worker": Run.kill_worker,
    "kill-producer": Run.kill_producer,
    "stop-worker": Run.stop_worker,
    "kill-backend": Run.kill_backend,
    "stop-server": Run.stop_server,
}

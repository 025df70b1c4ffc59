"""Groups while real workers are killed: ``python -m tests.groups.killing --seeds 50``.

Each seed is a group of a dozen steps on three nodes, which fails or does not, and workers that are
killed in the middle of its steps, their verifies and their undos. Some steps are jobs; some are SQL
on PostgreSQL and programs, which may take longer than a lease. Afterwards the nodes must hold
exactly what the group says, once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import msgspec

from inturn import App, command, sql
from inturn.groups.group import Group, GroupResult
from inturn.groups.model import GroupState
from tests.postgres_server import PostgresServer

ROOT = Path(__file__).parents[2]
STEPS = 12
LEASE = "1s"
LONG_SECONDS = 2.5  # the longest that SQL or a program takes
SECONDS_MAX = 120.0


class Report(msgspec.Struct, frozen=True):
    """What came of one seed."""

    seed: int
    store: str
    kills: int
    state: str
    seconds: float
    wrong: list[str]


class Workers:
    """Two workers, each a process, of which one is killed now and then."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        self._log = (folder / "log").open("ab")
        self._processes = [self._start(), self._start()]

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "inturn.cli.main", "work", "tests.groups.killed_app:app"),
                *("--lease", LEASE, "--sweep", "500ms", "-c", "8"),
            ],
            cwd=ROOT,
            env=os.environ | {"INTURN_STORE": self._url, "KILLED_FOLDER": str(self._folder)},
            stdout=subprocess.DEVNULL,
            stderr=self._log,
        )

    def kill(self, random: Random) -> None:
        number = random.randrange(len(self._processes))
        self._processes[number].kill()
        self._processes[number].wait()
        self._processes[number] = self._start()

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(60)
        self._log.close()


async def run_seed(url: str, folder: Path, seed: int, node_url: str) -> Report:
    """Run a group while its workers are killed, and judge what came of it."""
    began, random = time.monotonic(), Random(seed)
    for node in ("n0", "n1", "n2"):
        (folder / node).mkdir(parents=True)
    app = App(url)
    await app.migrate()
    await _on(node_url, "create table effect (name text)")
    async with app:
        group, expected = build(app, folder, random, node_url, fails=seed % 2 == 1)
        await group.submit()
        workers = Workers(url, folder)
        try:
            result, kills = await _killed(app, group, folder, workers, random)
        finally:
            workers.stop()
        await asyncio.sleep(LONG_SECONDS)  # whatever a killed worker left behind has ended, too
        there = files(folder) + [name for (name,) in await _on(node_url, "select * from effect")]
        wrong = judge(result, folder, sorted(there), expected)
        wrong += await app.run(lambda store: store.check())
    seconds = time.monotonic() - began
    return Report(seed, url.partition(":")[0], kills, result.state, round(seconds, 1), wrong)


async def _killed(
    app: App, group: Group, folder: Path, workers: Workers, random: Random
) -> tuple[GroupResult, int]:
    """Kill a worker again and again while files come and go; then let the group end."""
    ends_at, kills = time.monotonic() + SECONDS_MAX, 0
    seen: list[str] = []
    while time.monotonic() < ends_at and kills < 8:
        row = await app.groups.row(group.id)
        if row.state in (GroupState.DONE, GroupState.UNDONE, GroupState.STUCK):
            break
        there = files(folder)
        if there != seen:  # something happens: kill in the middle of what comes next
            await asyncio.sleep(random.uniform(0.0, 0.1))
            workers.kill(random)
            kills += 1
            seen = files(folder)
        await asyncio.sleep(0.02)
    return await group.result(timeout=SECONDS_MAX), kills


async def _on(url: str, query: str) -> list[tuple[str, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


def build(
    app: App, folder: Path, random: Random, node_url: str, *, fails: bool
) -> tuple[Group, list[str]]:
    """Return a group, and what is there when it is done."""
    from tests.groups import killed_app

    jobs = {name: app.job(retry=killed_app.PLAIN)(getattr(killed_app, name).function)
            for name in ("do", "undo", "verify", "refuse")}  # fmt: skip
    for node in ("n0", "n1", "n2"):
        app.node(node, concurrency=3)
    app.node("pg", node_url)
    group = app.group(f"killed {random.random()}")
    places = [f"n{random.randrange(3)}/s{number}" for number in range(STEPS)]
    after = [
        random.sample(range(number), min(number, random.randint(0, 2))) for number in range(STEPS)
    ]
    for number, place in enumerate(places):
        node, name = place.split("/")
        followers = [places[one] for one in range(number, STEPS) if number in after[one]]
        verified = random.random() < 0.7
        refused = fails and number == STEPS - 1
        if not refused and random.random() < 0.4:
            actions = random.choice([sql_actions, program_actions])(folder, place, random)
            group.step(
                name,
                node="pg",
                do=actions[0],
                undo=actions[1],
                verify=actions[2] if verified else None,
                after=[f"s{one}" for one in after[number]],
            )
            continue
        group.step(
            name,
            node=node,
            do=jobs["refuse"].call(node, name) if refused
            else jobs["do"].call(node, name, verified),
            undo=jobs["undo"].call(node, name, followers),
            verify=jobs["verify"].call(node, name) if verified else None,
            idempotent=not verified,
            after=[f"s{one}" for one in ([*range(number)] if refused else after[number])],
        )  # fmt: skip
    return group, places


def sql_actions(folder: Path, place: str, random: Random) -> list[Any]:
    """Return how a row is inserted, slowly, how it is deleted, and whether it is there."""
    seconds, these = random.uniform(0, LONG_SECONDS), f"from effect where name = '{place}'"
    insert = f"select pg_sleep({seconds}); insert into effect values ('{place}')"
    return [sql(insert), sql(f"delete {these}"), sql(f"select count(*) > 0 {these}")]


def program_actions(folder: Path, place: str, random: Random) -> list[Any]:
    """Return how a file gets a line, slowly, how it is removed, and whether it is there."""
    file, seconds = str(folder / place), random.uniform(0, LONG_SECONDS)
    script = f'sleep {seconds}; echo once more >> "$0"'
    remove, is_there = command("rm", "-f", file), command("test", "-e", file)
    return [command("sh", "-c", script, file), remove, is_there]


def files(folder: Path) -> list[str]:
    """Return the files that are there on the nodes, those of programs once for each line."""
    return sorted(
        str(file.relative_to(folder))
        for file in folder.glob("n?/*")
        for _ in file.read_text().splitlines() or [""]
    )


def judge(result: GroupResult, folder: Path, there: list[str], expected: list[str]) -> list[str]:
    """Return what is wrong with what a group has left."""
    wanted = sorted(expected) if result.state is GroupState.DONE else []
    wrong = [] if there == wanted else [f"{result.state}, and there are {there}"]
    if result.state is GroupState.STUCK:
        wrong.append(f"stuck: {result.reason}")
    complaints = folder / "complaints"
    return wrong + (complaints.read_text().splitlines() if complaints.exists() else [])


async def _all(seeds: int) -> int:
    worst = 0
    with PostgresServer(settings={"fsync": "off"}) as server:
        for seed in range(seeds):
            for store in ("sqlite", "postgres"):
                with (
                    tempfile.TemporaryDirectory() as folder,
                    server.fresh_database() as url,
                    server.fresh_database() as node_url,
                ):
                    path = Path(folder)
                    chosen = url if store == "postgres" else f"sqlite:///{path / 'work.db'}"
                    report = await run_seed(chosen, path / "nodes", seed, node_url)
                print(msgspec.json.encode(report).decode(), flush=True)
                worst = max(worst, len(report.wrong))
    return worst


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=50)
    sys.exit(bool(asyncio.run(_all(parser.parse_args().seeds))))

"""On SQLite, every statement of the hot path searches an index, and costs the same at any backlog.

The statements are those that run: SQLite says each to a trace, whether it comes from a file of
queries or stands in the code. What it costs is counted in steps of SQLite's own machine.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from inturn.model.job import NewJob
from inturn.model.lease import Claim
from inturn.policy.settlement import Settlement
from inturn.policy.verdict import Bury, Done, Release, Retry
from inturn.store.sqlite import connection as opening
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.store import SqliteStore
from tests.contract.support import verdicts

BIG = {
    "job", "lane", "tail", "lease", "run", "parked", "blocked", "waits", "dead", "dedupe",
    "cancelled", "result", "mark", "progress",
}  # fmt: skip
SCAN = re.compile(r"^SCAN (\w+)")
STEPS_TOGETHER = 50


class Watch:
    """Everything that a store's connections run, and how many steps it took."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.steps = 0
        self._connect = opening._connect

    def connect(self, path: str, busy_seconds: float) -> sqlite3.Connection:
        connection = self._connect(path, busy_seconds)
        connection.set_trace_callback(self.statements.append)
        connection.set_progress_handler(self._step, STEPS_TOGETHER)
        return connection

    def _step(self) -> int:
        self.steps += STEPS_TOGETHER
        return 0

    async def cost(self, verb: Awaitable[Any]) -> int:
        """How many steps a verb takes."""
        before = self.steps
        await verb
        return self.steps - before


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(opening, "_connect", watch.connect)
    return watch


@pytest_asyncio.fixture
async def store(tmp_path: Path, watch: Watch) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "work.db"), synchronous="normal")
    await store.open()
    yield store
    await store.close()


def walks(path: str, statements: list[str]) -> list[str]:
    """The statements that read a big table from end to end, with what SQLite says of each."""
    connection = sqlite3.connect(path)
    found = []
    for statement in sorted(set(statements)):
        if not re.match(r"(select|with|insert|update|delete)\b", statement):
            continue
        plan = [said for *_, said in connection.execute(f"explain query plan {statement}")]
        for said in plan:
            if f"CO-ROUTINE {said.removeprefix('SCAN ')}" in plan:
                continue  # a slice of the table, which has a line of its own
            match = SCAN.match(said)
            if match and match[1] in BIG and not looks_at_one(statement, match[1]):
                found.append(f"{said}: {statement}")
    connection.close()
    return found


def looks_at_one(statement: str, table: str) -> bool:
    """Whether it only asks if there is any row at all."""
    return bool(re.search(rf"select 1 from {table} limit 1$", statement))


async def take(store: SqliteStore, queue: str, jobs_max: int = 10, **options: Any) -> list[Claim]:
    return await store.claim(queue, jobs_max=jobs_max, worker="w", **options)


async def use_everything(store: SqliteStore) -> None:
    """Enqueue, claim, extend, settle in every way, reclaim: the hot path, with all its turns."""
    plain = [NewJob(kind="k", key=key) for key in ("a", "b", None) for _ in range(6)]
    [first, *_] = await store.enqueue(plain)
    await store.enqueue([NewJob(kind="k", key="c", after=frozenset({first.id}))])
    for _ in range(2):
        await store.enqueue([NewJob(kind="k", key="d", dedupe="one")])
    await store.enqueue([NewJob(kind="k", delay_seconds=0.01), NewJob(kind="k", round=1)])
    await asyncio.sleep(0.02)
    for verdict in (Done(), Done(result="1"), Retry(0.001, "boom"), Bury("no"), Release()):
        claims = await take(store, "default", 3)
        await store.extend([claim.lease for claim in claims])
        rest = [Release()] * 10
        await store.settle([verdicts(claim, verdict, *rest) for claim in claims], worker="w")
        await asyncio.sleep(0.005)
    await take(store, "default", 5, lease_seconds=0.001)
    await asyncio.sleep(0.01)
    await store.reclaim()
    claims = await take(store, "default", 20, suspects_max=5, kinds=["k"])
    await store.settle([Settlement.done(claim) for claim in claims], worker="w")


async def test_every_statement_of_the_hot_path_searches_an_index(
    store: SqliteStore, watch: Watch
) -> None:
    watch.statements.clear()
    await use_everything(store)
    ran = list(watch.statements)
    assert len(set(ran)) > 50
    assert walks(store.path, ran) == []
    assert await store.check() == []


READS: dict[str, Callable[[SqliteStore], Awaitable[Any]]] = {
    "queues": lambda store: store.queues(),
    "wait": lambda store: store.wait(["default"], timeout_seconds=0.01),
    "lanes": lambda store: store.lanes("default", key="a"),
    "dead": lambda store: store.dead_letters(queue="default"),
}


@pytest.mark.parametrize("name", READS)
async def test_a_reader_searches_an_index(store: SqliteStore, watch: Watch, name: str) -> None:
    await use_everything(store)
    watch.statements.clear()
    await READS[name](store)
    found = walks(store.path, watch.statements)
    assert [said for said in found if not said.startswith("SCAN lease")] == []


async def test_a_job_and_why_it_is_there_are_found_by_index(
    store: SqliteStore, watch: Watch
) -> None:
    [ticket] = await store.enqueue([NewJob(kind="k", key="a")])
    watch.statements.clear()
    await store.job(ticket.id)
    await store.explain(ticket.id)
    assert walks(store.path, watch.statements) == []


def test_a_walk_over_a_big_table_is_found(tmp_path: Path) -> None:
    """The check itself can fail."""
    path = str(tmp_path / "work.db")
    asyncio.run(SqliteStore(path).migrate())
    assert walks(path, ["select * from job where kind = 'k'"])
    assert walks(path, ["delete from lane where head > 5"])
    assert not walks(path, ["select * from job where lane = 1 and position > 5"])


KEYS: dict[str, Callable[[int], str | None]] = {
    "hot": lambda n: "hot",
    "wide": lambda n: f"key {n // 4}",
    "open": lambda n: None,
}


@pytest.mark.parametrize("shape", KEYS)
async def test_the_hot_path_costs_the_same_whatever_the_backlog(
    store: SqliteStore, watch: Watch, shape: str
) -> None:
    """A claim of 100, its settle, an enqueue and a look, at 1,000 waiting and at 40,000."""
    costs: dict[int, dict[str, int]] = {}
    for number in (1_000, 40_000):
        queue = f"{number}"
        for first in range(0, number, 20_000):
            await store.enqueue([
                NewJob(kind="k", queue=queue, key=KEYS[shape](n))
                for n in range(first, min(first + 20_000, number))
            ])  # fmt: skip
        claims: list[Claim] = []

        async def claim(queue: str = queue, claims: list[Claim] = claims) -> None:
            claims += await take(store, queue, 100)

        new = [NewJob(kind="k", queue=queue, key=KEYS[shape](0))]
        costs[number] = {
            "claim": await watch.cost(claim()),
            "settle": await watch.cost(
                store.settle([Settlement.done(claim) for claim in claims], worker="w")
            ),
            "enqueue": await watch.cost(store.enqueue(new)),
            "reclaim": await watch.cost(store.reclaim()),
            "queues": await watch.cost(store.queues()),
        }
        assert sum(len(claim.jobs) for claim in claims) == 100
    for verb, steps in costs[40_000].items():
        # A reclaim also sweeps over a slice of up to 1,000 lanes.
        spare = 30_000 if verb == "reclaim" else 5_000
        assert steps <= 1.5 * costs[1_000][verb] + spare, verb


async def test_a_long_run_is_read_along_its_primary_key(tmp_path: Path, store: SqliteStore) -> None:
    """Jobs that are read in one row come in the order in which SQLite meets them."""
    with closing(sqlite3.connect(tmp_path / "work.db")) as connection:
        plan = connection.execute(f"explain query plan {query('jobs_alike')}", (1, 1, 500))
        steps = [step[3] for step in plan]
    assert steps[0] == "SEARCH job USING PRIMARY KEY (lane=? AND position>? AND position<?)"
    assert not [step for step in steps if "TEMP B-TREE" in step]

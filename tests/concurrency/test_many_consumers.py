"""Many consumers in several processes: each job to one of them, each key in order, one by one.

Promise P1 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from inturn.model.job import NewJob
from inturn.store.address import connect
from inturn.store.store import Store
from tests.concurrency.crew import Crew
from tests.concurrency.support import sound

KEYS = [None, None, *(f"key {n}" for n in range(6))]
PRODUCERS = 3
BATCHES = 40
Lease = dict[str, Any]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'work.db'}"
    found: str = request.getfixturevalue("database")
    return found


@pytest_asyncio.fixture
async def any_store(url: str) -> Any:
    store = connect(url)
    await store.open()  # a new SQLite file is migrated by that
    yield store
    await sound(store)
    await store.close()


@pytest.fixture
def crews(url: str, any_store: Store, tmp_path: Path) -> Iterator[list[Crew]]:
    """Eight workers in three processes."""
    started = [
        Crew(tmp_path / name, "consume", url, name, str(workers))
        for name, workers in (("p", 3), ("q", 3), ("r", 2))
    ]
    for crew in started:
        crew.wait_until_ready()
    yield started
    for crew in started:
        crew.close()


async def produce(store: Store, number: int) -> int:
    """Enqueue batches over all keys, numbered, and return how many jobs there were."""
    chance = random.Random(number)
    count = 0
    for _ in range(BATCHES):
        batch = []
        for _ in range(chance.randint(1, 6)):
            count += 1
            payload = json.dumps([number, count])
            batch.append(NewJob(kind="k", key=chance.choice(KEYS), payload=payload))
        await store.enqueue(batch)
        await asyncio.sleep(chance.random() * 0.01)
    return count


async def finished(store: Store) -> None:
    async with asyncio.timeout(60):
        while True:
            [status] = await store.queues()
            if status.waiting + status.running + status.scheduled + status.retrying == 0:
                return
            await asyncio.sleep(0.05)


async def test_each_job_runs_once_and_each_key_in_order(
    any_store: Store, crews: list[Crew]
) -> None:
    """(003-03, 003-04, 001-01)"""
    counts = await asyncio.gather(*(produce(any_store, number) for number in range(PRODUCERS)))
    await finished(any_store)
    while sum(bool(crew.said()) for crew in crews) < 2:  # one was quick and the others stood still
        counts.append(await produce(any_store, len(counts)))
        await finished(any_store)
    for crew in crews:
        await asyncio.to_thread(crew.finish)
    leases = [lease for crew in crews for lease in crew.said()]
    ran = [id for lease in leases for id, _, _ in lease["jobs"]]
    assert len(ran) == len(set(ran)) == sum(counts)
    assert len({lease["worker"][0] for lease in leases}) > 1, "one process did it all"
    by_key: dict[str, list[Lease]] = defaultdict(list)
    for lease in leases:
        if lease["key"] is not None:
            by_key[lease["key"]].append(lease)
    assert len(by_key) == 6
    for held in by_key.values():
        held.sort(key=lambda lease: lease["claimed_at"])
        one_lease_at_a_time(held)
        positions_in_order(held)
        each_producer_in_order(held)


def one_lease_at_a_time(held: list[Lease]) -> None:
    for before, following in itertools.pairwise(held):
        assert before["token"] < following["token"]
        assert before["settled_at"] <= following["claimed_at"]


def positions_in_order(held: list[Lease]) -> None:
    positions = [position for lease in held for _, position, _ in lease["jobs"]]
    assert positions == list(range(1, len(positions) + 1))


def each_producer_in_order(held: list[Lease]) -> None:
    seen: dict[int, int] = {}
    for lease in held:
        for _, _, payload in lease["jobs"]:
            producer, number = json.loads(payload)
            assert seen.get(producer, 0) < number
            seen[producer] = number

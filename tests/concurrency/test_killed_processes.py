"""Processes on one SQLite file are killed at any moment: what was acknowledged is there.

Promise P2 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest

from inturn.model.job import JobState
from inturn.policy.settlement import Settlement
from inturn.store.sqlite.store import SqliteStore
from tests.concurrency.crew import LEASE_SECONDS_OF_CHURN, Crew
from tests.concurrency.support import sound


def churned(path: Path, rounds: int, seed: int) -> list[Crew]:
    """Let processes work on a file, two at a time, and kill each after a while."""
    chance = random.Random(seed)
    crews: list[Crew] = []
    url = f"sqlite:///{path}"
    for turn in range(rounds):
        pair = [
            Crew(path.with_suffix(f".{turn}{name}"), "churn", url, f"{turn}{name}", str(turn))
            for name in "pq"
        ]
        crews += pair
        give_up_at = time.monotonic() + 60
        while not all(map(is_at_work, pair)):
            assert time.monotonic() < give_up_at, "it did not get to work in 60 s"
            time.sleep(0.01)
        for crew in pair:
            time.sleep(chance.random() * 0.2)
            crew.kill()
    return crews


def is_at_work(crew: Crew) -> bool:
    """Whether it was told that some jobs were accepted, and that some are done."""
    said = crew.said()
    accepted = sum(len(line.get("accepted", [])) for line in said)
    return accepted > 10 and any(line.get("done") for line in said)


@pytest.mark.parametrize("seed", [1, 2])
async def test_killed_anywhere_the_file_is_sound_and_what_was_accepted_is_there(
    tmp_path: Path, seed: int
) -> None:
    """(001-02)"""
    path = tmp_path / "work.db"
    store = SqliteStore(str(path))
    await store.migrate()
    crews = await asyncio.to_thread(churned, path, 2, seed)
    said = [line for crew in crews for line in crew.said()]
    accepted = {UUID(id) for line in said for id, _ in line.get("accepted", [])}
    finished = Counter(UUID(id) for line in said for id in line.get("done", []))
    assert len(accepted) > 20
    assert finished
    assert max(finished.values()) == 1, "a job was done twice"
    await store.open()
    await sound(store)
    connection = sqlite3.connect(path)
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    connection.close()
    for id in finished:
        assert (await store.job(id)).state is JobState.DONE
    await asyncio.sleep(LEASE_SECONDS_OF_CHURN)
    await store.reclaim()
    order: list[tuple[str | None, int]] = []
    ran: set[UUID] = set()
    while not await is_empty(store):  # what was alone when it was killed waits for a second
        claims = await store.claim("default", jobs_max=1000, worker="w", suspects_max=1000)
        await asyncio.sleep(0 if claims else 0.05)
        for claim in claims:
            order += [(job.key, job.position) for job in claim.jobs if job.key]
            ran |= {job.id for job in claim.jobs}
        await store.settle([Settlement.done(claim) for claim in claims], worker="w")
    assert not ran & set(finished)
    for id in accepted:
        assert (await store.job(id)).state is JobState.DONE
    for key in ("a", "b"):
        positions = [position for name, position in order if name == key]
        assert positions == sorted(positions)
    await sound(store)
    await store.close()


async def is_empty(store: SqliteStore) -> bool:
    [status] = await store.queues()
    return status.waiting + status.running + status.retrying + status.scheduled == 0

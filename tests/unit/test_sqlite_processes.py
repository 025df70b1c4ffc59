"""Several processes on one SQLite file: no job is run twice, and waiters are woken quickly."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median

import pytest

from inturn.model.job import NewJob
from inturn.policy.settlement import Settlement
from inturn.store.sqlite.store import SqliteStore

WAKE_UPS = 21

ENQUEUE = """
import asyncio, sys, time
from inturn.model.job import NewJob
from inturn.store.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    for _ in sys.stdin:
        await store.enqueue([NewJob(kind="k")])
        print(time.monotonic(), flush=True)
    await store.close()

asyncio.run(main())
"""

OPEN = """
import asyncio, sys
from inturn.model.job import NewJob
from inturn.store.sqlite.store import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    await store.enqueue([NewJob(kind="k")])
    await store.close()

asyncio.run(main())
"""


def start(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "work.db"))
    await store.open()
    yield store
    await store.close()


async def test_processes_that_open_a_new_file_at_once_share_it(tmp_path: Path) -> None:
    path = str(tmp_path / "new.db")
    openers = [start(OPEN, path) for _ in range(4)]
    for opener in openers:
        await asyncio.to_thread(opener.communicate)
        assert opener.returncode == 0
    store = SqliteStore(path)
    await store.open()
    assert [status.waiting for status in await store.queues()] == [4]
    await store.close()


async def test_a_waiter_is_woken_by_another_process_as_soon_as_it_commits(
    store: SqliteStore,
) -> None:
    """In the middle of many wake-ups, and beside what the other process needs for its commit."""
    needed: list[float] = []
    late: list[float] = []
    with start(ENQUEUE, store.path) as producer:
        assert producer.stdin is not None
        assert producer.stdout is not None
        for _ in range(WAKE_UPS):
            waiting = asyncio.ensure_future(store.wait(["default"], timeout_seconds=30))
            await asyncio.sleep(0.02)
            assert not waiting.done()
            begun_at = time.monotonic()
            producer.stdin.write(b"go\n")
            producer.stdin.flush()
            assert await waiting is True
            woken_at = time.monotonic()
            committed_at = float(await asyncio.to_thread(producer.stdout.readline))
            needed.append(committed_at - begun_at)
            late.append(woken_at - committed_at)
            claims = await store.claim("default", jobs_max=1, worker="w")
            await store.settle([Settlement.done(claim) for claim in claims], worker="w")
        producer.stdin.close()
    # Milliseconds, where a look every half a second would make it a quarter of one.
    assert median(late) < max(0.12, 10 * median(needed)), (late, needed)


async def test_work_that_came_between_claim_and_wait_is_not_missed(store: SqliteStore) -> None:
    assert await store.claim("default", jobs_max=1, worker="w") == []
    await store.enqueue([NewJob(kind="k")])
    assert await store.wait(["default"], timeout_seconds=60) is True
    [claimed] = await store.claim("default", jobs_max=5, worker="w")
    assert await store.wait(["default"], timeout_seconds=0.05) is False
    await store.settle([Settlement.done(claimed)], worker="w")
    assert await store.wait(["default"], timeout_seconds=0.05) is False


async def test_a_waiter_is_woken_when_a_delayed_job_is_due(store: SqliteStore) -> None:
    waiting = asyncio.ensure_future(store.wait(["default"], timeout_seconds=60))
    await asyncio.sleep(0.02)
    begun = time.monotonic()
    await store.enqueue([NewJob(kind="k", delay_seconds=0.2)])
    assert await waiting is True
    assert time.monotonic() - begun > 0.19
    assert len(await store.claim("default", jobs_max=1, worker="w")) == 1

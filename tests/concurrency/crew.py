"""A process of workers on a store, for tests that need several, or one to be killed.

``python -m tests.concurrency.crew consume URL NAME WORKERS`` claims and settles until its input is
closed and nothing is left. ``... churn URL NAME SEED`` enqueues, claims and settles until it is
killed. Both write a line of JSON for each thing that was acknowledged, after it was.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from inturn.model.errors import LeaseLost
from inturn.model.job import NewJob
from inturn.model.lease import Claim
from inturn.policy.settlement import Settlement
from inturn.store.address import connect
from inturn.store.store import Store

ROOT = Path(__file__).parents[2]
LEASE_SECONDS_OF_CHURN = 0.3


class Crew:
    """A process that the test started, and what it wrote."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self._path = path
        with path.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.concurrency.crew", *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                cwd=ROOT,
            )

    def kill(self) -> None:
        """End it as a power cut would: no handler runs, nothing is flushed."""
        self._process.kill()
        self._process.communicate()

    def finish(self) -> None:
        """Let it end by itself when nothing is left."""
        self._process.communicate()
        assert self._process.returncode == 0

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()

    def wait_until_ready(self) -> None:
        """Wait until it is at work."""
        ends_at = time.monotonic() + 60
        while not self._path.stat().st_size:
            assert self._process.poll() is None, "it ended at once"
            assert time.monotonic() < ends_at, "it did not get ready in 60 s"
            time.sleep(0.01)

    def said(self) -> list[dict[str, Any]]:
        """What it wrote since it was ready; the last line may have been cut."""
        lines = self._path.read_text().split("\n")[:-1]
        said = [json.loads(line) for line in lines]
        return [words for words in said if "ready" not in words]


def names(claims: list[Claim]) -> list[str]:
    return [str(job.id) for claim in claims for job in claim.jobs]


def say(**words: Any) -> None:
    print(json.dumps(words), flush=True)


async def consume(store: Store, worker: str, stopping: asyncio.Event) -> None:
    """Claim, hold for a moment, settle; say when each lease began and ended for us.

    Workers of even numbers settle and claim in one turn.
    """
    chance = random.Random(worker)
    takes_turns = int(worker[-1]) % 2 == 0
    claims: list[Claim] = []
    claimed_at = 0
    while True:
        settled, settled_at = claims, time.monotonic_ns()
        settlements = [Settlement.done(claim) for claim in settled]
        wish: dict[str, Any] = {"jobs_max": chance.randint(1, 8), "worker": worker}
        if takes_turns:
            claims = await store.turn(settlements, "default", **wish)
        else:
            await store.settle(settlements, worker=worker)
            claims = await store.claim("default", **wish)
        for claim in settled:
            say(
                worker=worker,
                token=claim.lease.token,
                key=claim.lease.key,
                jobs=[[str(job.id), job.position, job.payload] for job in claim.jobs],
                claimed_at=claimed_at,
                settled_at=settled_at,
            )
        claimed_at = time.monotonic_ns()
        if claims:
            await asyncio.sleep(chance.random() * 0.004)
        elif stopping.is_set():
            return
        else:
            await store.wait(["default"], timeout_seconds=0.1)


async def consume_all(url: str, name: str, workers: int) -> None:
    store = connect(url)
    await store.open()
    stopping = asyncio.Event()
    say(ready=name)
    consuming = asyncio.gather(*(consume(store, f"{name}{n}", stopping) for n in range(workers)))
    await asyncio.to_thread(sys.stdin.read)
    stopping.set()
    await consuming
    await store.close()


async def churn(url: str, name: str, seed: int) -> None:
    """Enqueue, claim, settle and reclaim at once, for as long as we live."""
    store = connect(url)
    await store.open()
    chance = random.Random(seed)

    async def produce() -> None:
        number = 0
        while True:
            jobs = []
            for _ in range(chance.randint(1, 4)):
                number += 1
                key = chance.choice(["a", "b", None])
                jobs.append(NewJob(kind="k", key=key, payload=json.dumps([name, number])))
            say(tries=[str(job.id) for job in jobs])
            await store.enqueue(jobs)
            say(accepted=[[str(job.id), job.key] for job in jobs])

    wish: dict[str, Any] = {"jobs_max": 3, "lease_seconds": LEASE_SECONDS_OF_CHURN}

    async def work(worker: str) -> None:
        while True:
            claims = await store.claim("default", worker=worker, **wish)
            jobs = names(claims)
            say(began=jobs)
            try:
                await store.settle([Settlement.done(claim) for claim in claims], worker=worker)
            except LeaseLost:
                continue
            say(done=jobs)
            await store.reclaim()

    async def work_in_turns(worker: str) -> None:
        claims: list[Claim] = []
        while True:
            jobs, settlements = names(claims), [Settlement.done(claim) for claim in claims]
            try:
                claims = await store.turn(settlements, "default", worker=worker, **wish)
            except LeaseLost:
                claims = []
                continue
            say(done=jobs)
            say(began=names(claims))
            await store.reclaim()

    await asyncio.gather(produce(), work(f"{name} 1"), work_in_turns(f"{name} 2"))


def main() -> None:
    verb, url, name, number = sys.argv[1:]
    run = {"consume": consume_all, "churn": churn}[verb]
    asyncio.run(run(url, name, int(number)))


if __name__ == "__main__":
    main()

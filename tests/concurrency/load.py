"""Producers and workers that go on whatever happens to their connections, and what they saw."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable
from typing import Any
from uuid import UUID

from inturn.model.errors import LeaseLost
from inturn.model.job import JobState, NewJob
from inturn.model.lease import Claim
from inturn.policy.settlement import Settlement
from inturn.store.store import Store

LEASE_SECONDS = 0.5
KEYS = [None, "a", "b", "c"]


class Load:
    """Two producers and three workers on a store. No verb of theirs may fail."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.accepted: list[NewJob] = []
        self.began: dict[str, list[int]] = defaultdict(list)  # by key, positions as they began
        self.finished: Counter[UUID] = Counter()
        self.lost = 0  # leases that were gone when we came to settle
        self._stopping = asyncio.Event()
        self._all_produced = asyncio.Event()

    async def run_while(self, trouble: Awaitable[None]) -> None:
        """Work while there is trouble; then finish everything that was accepted."""
        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            producing = [group.create_task(self._produce(number)) for number in range(2)]
            for number in range(3):
                group.create_task(self._work(f"w{number}"))
            await trouble
            self._stopping.set()
            await asyncio.wait(producing)
            self._all_produced.set()

    async def holds(self) -> None:
        """Nothing was lost, doubled, or out of order."""
        assert self.accepted
        assert max(self.finished.values()) == 1, "a job was done twice"
        for job in self.accepted:
            assert (await self.store.job(job.id)).state is JobState.DONE
        for key, positions in self.began.items():
            furthest = 0
            for position in positions:
                # After a lost answer a job begins again, but never one before its turn.
                assert position <= furthest + 1, f"{key}: {position} overtook"
                furthest = max(furthest, position)

    async def _produce(self, number: int) -> None:
        chance = random.Random(number)
        count = 0
        while not self._stopping.is_set():
            jobs = []
            for _ in range(chance.choice([1, 2, 3, 50])):
                count += 1
                payload = json.dumps([number, count])
                jobs.append(NewJob(kind="k", key=chance.choice(KEYS), payload=payload))
            await self.store.enqueue(jobs)
            self.accepted += jobs
            await asyncio.sleep(0.005)

    async def _work(self, worker: str) -> None:
        """Claim and settle; the first worker in one turn."""
        claims: list[Claim] = []
        wish: dict[str, Any] = {"jobs_max": 20, "worker": worker, "suspects_max": 20}
        wish["lease_seconds"] = LEASE_SECONDS
        while claims or not (self._all_produced.is_set() and await self._is_empty()):
            settled, settlements = claims, [Settlement.done(claim) for claim in claims]
            claims = []
            try:
                if worker == "w0":
                    claims = await self.store.turn(settlements, "default", **wish)
                else:
                    await self.store.settle(settlements, worker=worker)
            except LeaseLost:
                self.lost += 1
            else:
                self.finished.update(job.id for claim in settled for job in claim.jobs)
            if not claims:
                claims = await self.store.claim("default", **wish)
            for claim in claims:
                if claim.lease.key is not None:
                    self.began[claim.lease.key] += [job.position for job in claim.jobs]
            await self.store.reclaim()

    async def _is_empty(self) -> bool:
        statuses = await self.store.queues()
        return not any(one.waiting + one.running + one.retrying + one.scheduled for one in statuses)

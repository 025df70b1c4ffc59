"""Trouble for a reader to mend: dead letters, and a lane that is halted on one."""

from __future__ import annotations

from inturn.model.errors import UnknownLane
from inturn.model.job import NewJob
from inturn.model.lane import LaneState, OnDead, QueueSettings
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done
from inturn.store.protocol import Store

QUEUE = "payments"


async def bury_some(store: Store) -> None:
    """Have a few dead letters without a key."""
    jobs = [NewJob(kind="charge", queue=QUEUE, payload='{"customer": "eve"}') for _ in range(3)]
    await store.enqueue(jobs)
    while jobs_left := {job.id for job in jobs} - {
        letter.job.id for letter in (await store.dead_letters(queue=QUEUE)).rows
    }:
        [claim] = await store.claim(QUEUE, jobs_max=1, worker="w1")
        verdict = Bury("no such card") if claim.jobs[0].id in jobs_left else Done()
        outcome = Outcome(claim.jobs[0], verdict)
        await store.settle([Settlement(claim.lease, [outcome])], worker="w1")


async def halt(store: Store, queue: str, key: str) -> None:
    """Have a lane that is halted on its first job."""
    await store.configure(queue, QueueSettings(on_dead=OnDead.HALT))
    if await _is_halted(store, queue, key):
        return
    await store.enqueue([NewJob(kind="charge", queue=queue, key=key) for _ in range(3)])
    while not await _is_halted(store, queue, key):
        [claim] = await store.claim(queue, jobs_max=1, worker="w1")
        verdict = Bury("no such card") if claim.jobs[0].key == key else Done()
        outcome = Outcome(claim.jobs[0], verdict)
        await store.settle([Settlement(claim.lease, [outcome])], worker="w1")


async def _is_halted(store: Store, queue: str, key: str) -> bool:
    try:
        lanes = await store.lanes(queue, key=key)
    except UnknownLane:
        return False
    return any(lane.state is LaneState.HALTED for lane in lanes.rows)

"""Ended: which of many jobs have ended, in one statement, and being told when some may have."""

from __future__ import annotations

import asyncio

import pytest

from inturn.model.errors import BadInput
from inturn.model.job import JobState
from inturn.store.store import Store
from tests.contract.support import (
    NOWHERE,
    bring_to,
    claim,
    done,
    enqueue,
    is_postgres,
    job,
    rows_of,
    settle,
)

ENDS = {JobState.DONE, JobState.DEAD, JobState.CANCELLED}


async def test_ended_tells_of_those_that_have_and_how(store: Store) -> None:
    made = {wanted: await bring_to(store, wanted, queue=str(wanted)) for wanted in JobState}
    ended = await store.ended([*made.values(), NOWHERE])
    assert ended == {made[one]: one for one in ENDS} | {NOWHERE: None}
    assert await store.ended([]) == {}
    with pytest.raises(BadInput):
        await store.ended(["no id"])  # type: ignore[list-item]


async def test_whoever_waits_for_ends_is_told_of_a_settle(store: Store) -> None:
    """Within the minute that it waits, and not by looking."""
    [made] = await enqueue(store, job())
    claims = await claim(store)

    async def told() -> None:
        seen = 0
        while made not in await store.ended([made]):
            seen = await store.wait_ended(["default"], seen, timeout_seconds=600.0)

    waiting = asyncio.create_task(told())
    for _ in range(6_000 if is_postgres(store) else 0):
        if (await rows_of(store, "awaiting"))["awaiting"]:
            break
        await asyncio.sleep(0.01)
    await settle(store, done(claims))
    async with asyncio.timeout(60):
        await waiting


async def test_whoever_has_not_heard_of_an_end_is_told_at_once(store: Store) -> None:
    seen = await store.wait_ended(["default"], timeout_seconds=0.0)
    await bring_to(store, JobState.DONE)
    if is_postgres(store):
        pytest.skip("a settle tells only of queues that somebody has waited for")
    async with asyncio.timeout(60):
        assert await store.wait_ended(["default"], seen, timeout_seconds=600.0) != seen

"""A job is cancelled or it runs, never both."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from inturn.model.job import JobState
from inturn.model.lease import Claim
from inturn.store.postgres.sql import called
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.support import (
    claim,
    done,
    drain,
    enqueue,
    held_up,
    ids,
    job,
    quickly,
    state,
)

places = pytest.mark.parametrize("place", ["keyed", "open", "parked"])


async def placed(store: PostgresStore, place: str, number: int, keys: int = 5) -> list[UUID]:
    """Enqueue jobs that stand in keyed lanes, in an open lane, or wait by themselves."""
    if place == "keyed":
        return await enqueue(store, *(job(f"key {n % keys}") for n in range(number)))
    made = await enqueue(store, *(job() for _ in range(number)))
    if place == "parked":
        leased = await claim(store, number, lease_seconds=0.001)
        assert sorted(ids(leased)) == sorted(made)
        await asyncio.sleep(0.01)
        await store.reclaim()
    return made


@places
async def test_a_job_is_cancelled_or_it_runs(store: PostgresStore, place: str) -> None:
    made = await placed(store, place, 40)
    claims: list[Claim] = []
    said: dict[UUID, JobState] = {}

    async def consume() -> None:
        while taken := await claim(store, 3, suspects_max=3):
            claims.extend(taken)
            await asyncio.sleep(0)

    async def cancel(some: list[UUID]) -> None:
        for one in some:
            said[one] = await store.cancel(one, by="ann")

    await asyncio.gather(consume(), consume(), cancel(made[::4]), cancel(made[2::4]))
    await done(store, claims)
    ran = ids(claims) + await drain(store)
    cancelled = {one for one, now in said.items() if now is JobState.CANCELLED}
    assert set(said.values()) <= {JobState.CANCELLED, JobState.RUNNING}
    assert sorted(ran) == sorted(set(made) - cancelled)
    for one in made:
        assert await state(store, one) is (
            JobState.CANCELLED if one in cancelled else JobState.DONE
        )


@pytest.mark.parametrize(
    ("place", "stands_still"),
    [("keyed", False), ("open", False), ("parked", False), ("keyed", True), ("open", True)],
)
async def test_a_claim_that_began_before_a_cancel_was_committed_respects_it(
    store: PostgresStore, place: str, stands_still: bool
) -> None:
    """The first cancel there ever was: a claim that looked for cancels before finds none.

    With the table of tails locked a claim stands still where it chooses lanes; with only the
    cancel's own locks, it may wait for the lane. Both are what happens in a moment's time.
    """
    [first, one, last] = await placed(store, place, 3, keys=1)
    async with store.transaction() as transaction:
        if stands_still:
            await transaction.execute("lock table inturn.tail in access exclusive mode")
            claiming = asyncio.ensure_future(claim(store, suspects_max=3))
            await held_up(claiming)
        [[said]] = await transaction.execute(called("select inturn.cancel($1, 'ann', null)"), one)
        if not stands_still:
            claiming = asyncio.ensure_future(claim(store, suspects_max=3))
            await held_up(claiming)
    claims = await quickly(claiming)
    await done(store, claims)
    ran = ids(claims) + await drain(store)
    assert said == "cancelled"
    assert sorted(ran) == sorted([first, last])
    assert await state(store, one) is JobState.CANCELLED

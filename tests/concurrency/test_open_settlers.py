"""A transaction that has settled and stays open stops nobody's heartbeat."""

from __future__ import annotations

import asyncio

import pytest

from inturn.policy.settlement import Settlement
from inturn.store.postgres import store as store_module
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.support import ask, claim, done, enqueue, held_up, ids, job, jobs, quickly

UNTIL = (
    "select until > clock_timestamp() + interval '10 minutes' from inturn.lease where token = $1"
)


@pytest.mark.parametrize("key", ["a", None], ids=["keyed", "unkeyed"])
async def test_a_settle_that_is_not_committed_holds_up_no_extend(
    store: PostgresStore, key: str | None
) -> None:
    await enqueue(store, job(key))
    [settling] = await claim(store)
    await enqueue(store, job("b"))
    [running] = await claim(store)
    async with store.transaction() as transaction:
        await transaction.settle([Settlement.done(settling)], worker="w1")
        leases = [settling.lease, running.lease]
        assert await quickly(store.extend(leases, lease_seconds=1200)) == []
        assert await ask(store, UNTIL, running.lease.token)
    assert await quickly(store.extend(leases)) == [settling.lease]
    await done(store, [running])


async def test_a_lease_that_was_locked_for_a_moment_is_prolonged_all_the_same(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "LOCKED_SECONDS", (0.02,) * 1_000)
    await enqueue(store, *jobs(2))
    [one] = await claim(store)
    async with store.transaction() as transaction:
        await transaction.execute("select from inturn.lease for update")
        extending = asyncio.create_task(store.extend([one.lease], lease_seconds=1200))
        assert await held_up(extending)
        assert not await ask(store, UNTIL, one.lease.token)
    assert await quickly(extending) == []
    assert await ask(store, UNTIL, one.lease.token)


async def test_a_lease_that_is_being_settled_is_not_taken_back(store: PostgresStore) -> None:
    """Not prolonged while it is locked, it may run out, and is still its worker's."""
    made = await enqueue(store, *jobs(2))
    [one] = await claim(store, lease_seconds=0.001)
    await asyncio.sleep(0.01)
    async with store.transaction() as transaction:
        await transaction.settle([Settlement.done(one)], worker="w1")
        assert await quickly(store.extend([one.lease])) == []
        assert (await quickly(store.reclaim())).leases == 0
    assert ids([one]) == made
    assert await store.extend([one.lease]) == [one.lease]

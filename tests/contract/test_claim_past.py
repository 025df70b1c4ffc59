"""A claim looks past lanes that have nothing to give, for as long as there is something behind."""

from __future__ import annotations

import pytest

from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Done
from inturn.store.protocol import Store
from tests.contract.support import claim, done, enqueue, ids, job, jobs, settle, state

MANY = 60


async def test_past_lanes_of_which_all_is_cancelled(store: Store) -> None:
    cancelled = []
    for key in ("a", "b"):
        cancelled += (await enqueue(store, *jobs(12, key=key)))[1:]
    heads = [*await claim(store, 1), *await claim(store, 1)]
    for one in cancelled:
        await store.cancel(one, by="ann")
    await settle(store, done(heads))
    [behind] = await enqueue(store, job(key="c"))
    assert ids(await claim(store)) == [behind]


@pytest.mark.parametrize("key", ["a", None], ids=["keyed", "unkeyed"])
async def test_past_cancelled_jobs_in_the_middle_of_a_line(store: Store, key: str | None) -> None:
    made = await enqueue(store, *jobs(10, key=key))
    for one in made[2:4] + made[7:8]:
        await store.cancel(one, by="ann")
    ran = []
    while claims := await claim(store, 100):
        ran += ids(claims)
        await settle(store, done(claims))
    assert ran == [*made[:2], *made[4:7], *made[8:]]
    assert await store.check() == []


async def test_past_lanes_whose_next_round_is_closed(store: Store) -> None:
    for number in range(MANY):
        await enqueue(store, *(job(key=f"key {number}", round=one) for one in (0, 1, 1, 1)))
    taken = [len(ids(await claim(store, MANY // 2))) for _ in range(3)]
    assert taken == [MANY // 2, MANY // 2, 0]


async def test_past_open_lanes_that_are_drained(store: Store) -> None:
    await enqueue(store, *(job(kind=f"kind {number}") for number in range(MANY)))
    await settle(store, done(await claim(store)))
    [behind] = await enqueue(store, job(kind="another"))
    assert ids(await claim(store, 1)) == [behind]


@pytest.mark.parametrize("key", ["a", None], ids=["keyed", "unkeyed"])
async def test_two_settlements_of_one_lease_in_one_call(store: Store, key: str | None) -> None:
    made = await enqueue(store, *jobs(4, key=key))
    [claimed] = await claim(store)
    parts = [claimed.jobs[:2], claimed.jobs[2:]]
    await settle(
        store, [Settlement(claimed.lease, [Outcome(one, Done()) for one in part]) for part in parts]
    )
    assert [await state(store, one) for one in made] == ["done"] * 4
    assert await store.check() == []

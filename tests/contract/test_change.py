"""Changes: rows, settles, cancels, jobs and gates together, in one call.

Promise P13 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
import sqlite3

import pytest
import pytest_asyncio

from inturn.model.errors import BadInput, LeaseLost, QueueFull, UnknownQueue
from inturn.model.ids import new_id
from inturn.model.job import JobState
from inturn.model.lane import QueueSettings
from inturn.store.change import Change
from inturn.store.store import Store
from tests.contract.support import claim, claim_one, done, enqueue, fail, job, state, states
from tests.shop import ADD_ITEM, ADD_ITEMS, ITEMS, SCHEMA, Item, Size


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def shop(store: Store) -> None:
    await store.migrate([SCHEMA])


def item(name: str = "pen") -> Item:
    return Item(id=new_id(), name=name)


async def names(store: Store) -> list[str]:
    return [one.name for one in await store.read(ITEMS, name=None)]


async def test_a_change_does_all_that_it_says_in_its_order(store: Store) -> None:
    """A place is free when its job is cancelled, and a gate sees the jobs that came."""
    await store.configure("default", QueueSettings(depth_max=2))
    [first] = await enqueue(store, job())
    [second] = await enqueue(store, job())
    claimed = await claim_one(store)
    third = job(round=3)
    tickets = await store.apply(
        Change(
            gates=[("default", None), ("other", 7)],
            enqueue=[third],
            cancel=[second],
            by="ann",
            settle=fail(claimed),
            worker="w1",
            rows=[
                (ADD_ITEM, {"id": new_id(), "name": "a", "size": Size.SMALL, "sold_at": None}),
                (ADD_ITEMS, [item("b"), item("c")]),
            ],
        )
    )
    assert [ticket.id for ticket in tickets] == [third.id]
    assert await states(store, [first, second, third.id]) == [
        JobState.RETRYING,
        JobState.CANCELLED,
        JobState.WAITING,
    ]
    assert await names(store) == ["a", "b", "c"]
    assert {one.name: one.gate for one in await store.queues()} == {"default": 0, "other": 7}
    assert await store.apply(Change()) == []


async def test_a_change_that_is_refused_leaves_nothing_behind(store: Store) -> None:
    await store.configure("default", QueueSettings(depth_max=1))
    [first] = await enqueue(store, job())
    with pytest.raises(QueueFull) as refused:
        await store.apply(Change(rows=[(ADD_ITEMS, [item()])], enqueue=[job(), job()]))
    assert refused.value.retry_seconds > 0
    assert await names(store) == []
    claims = await claim(store)
    await store.settle(done(claims), worker="w1")
    with pytest.raises(LeaseLost):
        await store.apply(
            Change(rows=[(ADD_ITEMS, [item()])], settle=done(claims), worker="w1", enqueue=[job()])
        )
    assert await names(store) == []
    assert await state(store, first) is JobState.DONE
    with pytest.raises(UnknownQueue):
        await store.apply(Change(gates=[("nowhere", None)]))
    for wrong in (
        Change(cancel=[first]),
        Change(settle=done(claims)),
        Change(gates=[("default", -1)]),
        "no change",
    ):
        with pytest.raises(BadInput):
            await store.apply(wrong)  # type: ignore[arg-type]


async def test_a_change_inside_a_transaction_is_one_verb_of_it(store: Store) -> None:
    await store.configure("default", QueueSettings(depth_max=1))
    async with store.transaction() as t:
        await t.apply(Change(rows=[(ADD_ITEMS, [item("a")])]))
        with pytest.raises(QueueFull):
            await t.apply(Change(rows=[(ADD_ITEMS, [item("b")])], enqueue=[job(), job()]))
        [ticket] = await t.apply(Change(rows=[(ADD_ITEMS, [item("c")])], enqueue=[job()]))
    assert await names(store) == ["a", "c"]
    assert await state(store, ticket.id) is JobState.WAITING


@pytest.mark.parametrize("store_kind", ["sqlite"], indirect=True)
async def test_changes_at_the_same_time_share_commits(store: Store) -> None:
    """And those that are refused harm no other."""
    commits = 0

    def committed(connection: sqlite3.Connection) -> None:
        nonlocal commits
        commits += 1

    store._writer._committed = committed  # type: ignore[attr-defined]
    taken = item("0")
    changes = [
        Change(rows=[(ADD_ITEMS, [taken if number % 10 == 0 else item()])], enqueue=[job()])
        for number in range(100)
    ]
    ends = await asyncio.gather(*map(store.apply, changes), return_exceptions=True)
    assert sum(isinstance(end, list) for end in ends) == 91
    assert 0 < commits < 20
    assert len(await names(store)) == 91

"""Dedupe: a second job with a key that is known is the first one, or a conflict.

Promise P10 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio

import pytest

from inturn.model.clock import ManualClock
from inturn.model.errors import DedupeConflict
from inturn.model.job import NewJob
from inturn.store.store import Store
from tests.contract.support import (
    claim,
    done,
    enqueue,
    job,
    run_all,
    settle,
    stored,
)


@pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
async def test_the_same_dedupe_key_three_times_is_one_job(
    store: Store, other_store: Store, key: str | None
) -> None:
    """(001-15)"""
    tickets = []
    for one in (store, other_store, store):
        tickets += await one.enqueue([job(dedupe="mail-42", key=key, payload="[1]")])
    assert len({ticket.id for ticket in tickets}) == 1
    assert [ticket.duplicate for ticket in tickets] == [False, True, True]
    assert await run_all(store) == [tickets[0].id]


async def test_two_jobs_with_equal_payloads_are_two_jobs(store: Store) -> None:
    """(001-15)"""
    made = await enqueue(store, job(payload="[1]"), job(payload="[1]"))
    made += await enqueue(store, job(payload="[1]", dedupe="one"), job(payload="[1]", dedupe="two"))
    assert len(set(made)) == 4
    assert sorted(await run_all(store)) == sorted(made)


async def test_many_at_once_are_one_job(store: Store, other_store: Store) -> None:
    """(001-15)"""
    given = await asyncio.gather(
        *(one.enqueue([job(dedupe="d", key="a")]) for one in [store, other_store] * 5)
    )
    assert len({ticket.id for [ticket] in given}) == 1
    assert [ticket.duplicate for [ticket] in given].count(False) == 1
    assert len(await run_all(store)) == 1


async def test_twice_in_one_batch_is_one_job(store: Store) -> None:
    """(001-15)"""
    first, second, third = await store.enqueue([job(dedupe="d"), job(), job(dedupe="d")])
    assert (third.id, third.duplicate) == (first.id, True)
    assert not second.duplicate
    assert sorted(await run_all(store)) == sorted([first.id, second.id])


async def test_payloads_that_differ_only_in_spelling_are_the_same(store: Store) -> None:
    """(001-16)"""
    spellings = [
        '{"to":"é","n":[1,2]}',
        '{ "n" : [1, 2], "to" : "\\u00e9" }',
        '{"n":[1,2],\n"to":"\\u00E9"}',
    ]
    tickets = [
        ticket
        for spelling in spellings
        for ticket in await store.enqueue([job(dedupe="d", payload=spelling)])
    ]
    assert len({ticket.id for ticket in tickets}) == 1
    # What is kept is what the first one said, as it said it.
    assert (await store.job(tickets[0].id)).job.payload == spellings[0]


@pytest.mark.parametrize(
    "other",
    [
        job("mail", dedupe="d", key="a", payload='{"n": 2}'),
        job("mail", dedupe="d", key="a", payload='["n", 1]'),
        job("mail", dedupe="d", key="b", payload='{"n": 1}'),
        job("mail", dedupe="d", payload='{"n": 1}'),
        job("push", dedupe="d", key="a", payload='{"n": 1}'),
    ],
    ids=["payload", "shape", "key", "no-key", "kind"],
)
async def test_the_same_dedupe_key_for_other_work_is_a_conflict(
    store: Store, other: NewJob
) -> None:
    """(001-17)"""
    [first] = await enqueue(store, job("mail", dedupe="d", key="a", payload='{"n": 1}'))
    before = await stored(store)
    with pytest.raises(DedupeConflict, match="'d'") as conflict:
        await store.enqueue([job(), other, job(key="z")])
    assert (conflict.value.queue, conflict.value.dedupe) == ("default", "d")
    assert conflict.value.job == first
    assert await stored(store) == before


async def test_a_conflict_within_one_batch_stores_nothing(store: Store) -> None:
    """(001-17)"""
    first = job(dedupe="d", payload="1")
    with pytest.raises(DedupeConflict) as conflict:
        await store.enqueue([first, job(dedupe="d", payload="2")])
    assert conflict.value.job == first.id
    assert set((await stored(store)).values()) == {0}


async def test_options_that_are_not_the_work_do_not_conflict(store: Store) -> None:
    [first] = await enqueue(store, job(dedupe="d"))
    [ticket] = await store.enqueue(
        [job(dedupe="d", priority=5, delay_seconds=9, attempts_max=1, timeout_seconds=1)]
    )
    assert (ticket.id, ticket.duplicate) == (first, True)


async def test_a_dedupe_key_is_free_again_when_its_window_is_over(
    store: Store, clock: ManualClock
) -> None:
    [first] = await enqueue(store, job(dedupe="d", dedupe_seconds=10))
    clock.advance(9.999)
    [ticket] = await store.enqueue([job(dedupe="d", dedupe_seconds=10)])
    assert ticket.id == first
    clock.advance(0.001)
    [ticket] = await store.enqueue([job(dedupe="d", dedupe_seconds=10, payload="2")])
    assert ticket.id != first
    assert not ticket.duplicate
    clock.advance(9)
    [again] = await store.enqueue([job(dedupe="d", dedupe_seconds=10, payload="2")])
    assert (again.id, again.duplicate) == (ticket.id, True)


async def test_the_window_outlives_the_job(store: Store) -> None:
    [first] = await enqueue(store, job(dedupe="d"))
    await settle(store, done(await claim(store)))
    [ticket] = await store.enqueue([job(dedupe="d")])
    assert (ticket.id, ticket.duplicate) == (first, True)
    assert await claim(store) == []


async def test_a_duplicate_in_a_batch_stands_for_the_first_where_others_wait_for_it(
    store: Store,
) -> None:
    first, again = job(dedupe="k"), job(dedupe="k")
    waiting = job(after=frozenset({again.id}))
    await store.enqueue([first, waiting, again])
    assert (await store.job(waiting.id)).waits_for == (first.id,)
    assert await run_all(store) == [first.id, waiting.id]

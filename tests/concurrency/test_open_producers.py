"""A producer's open transaction holds up producers of the same key, and no one else.

Promise P15 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
import random
from uuid import UUID

import asyncpg
import pytest

from inturn.store.postgres.store import PostgresStore
from tests.concurrency.producer import ISOLATIONS, Opening, OpenProducer
from tests.concurrency.support import (
    QUICK_SECONDS,
    ask,
    claim,
    done,
    drain,
    enqueue,
    held_up,
    ids,
    job,
    jobs,
    quickly,
    release,
)

every_isolation = pytest.mark.parametrize("isolation", ISOLATIONS)


async def every_consumer_verb(store: PostgresStore) -> list[UUID]:
    """Use each verb of a worker once, and return what was finished."""
    claims = await quickly(claim(store, 10))
    assert await quickly(store.extend([one.lease for one in claims])) == []
    await quickly(done(store, claims))
    lost = await quickly(claim(store, 1, lease_seconds=0.001))
    await asyncio.sleep(0.01)
    assert (await quickly(store.reclaim())).leases == len(lost)
    again = await quickly(claim(store, 10, suspects_max=10))
    await quickly(release(store, again))
    await quickly(store.queues())
    await quickly(store.prune())
    return ids(claims)


@every_isolation
@pytest.mark.parametrize("key", ["a", None])
async def test_an_open_producer_holds_up_no_consumer(
    store: PostgresStore, producer: Opening, isolation: str, key: str | None
) -> None:
    before = await enqueue(store, *jobs(12, key))
    open_one = await producer(isolation)
    late = await open_one.enqueue(*jobs(2, key), *jobs(2, "new"))
    finished = await every_consumer_verb(store)
    assert finished == before[:10]
    rest = await drain(store)
    assert sorted(rest) == sorted(before[10:])
    assert await quickly(claim(store)) == []
    await open_one.commit()
    assert sorted(await drain(store)) == sorted(late)


@every_isolation
async def test_it_holds_up_producers_of_the_same_key_only(
    store: PostgresStore, producer: Opening, isolation: str
) -> None:
    await enqueue(store, job("a"), job("b"), job())
    open_one = await producer(isolation)
    await open_one.enqueue(job("a"), job(), job("new"))
    for key in ("b", None, "newer"):
        await quickly(enqueue(store, job(key)))
    same = asyncio.ensure_future(enqueue(store, job("a")))
    same_new = asyncio.ensure_future(enqueue(store, job("new")))
    assert await held_up(same)
    assert await held_up(same_new)
    await open_one.commit()
    await quickly(same)
    await quickly(same_new)
    assert len(await drain(store)) == 11


async def test_the_first_job_of_a_queue_holds_up_no_other_key(
    store: PostgresStore, producer: Opening
) -> None:
    """The queue's own row is made by its first job, whose transaction may stay open."""
    open_one = await producer()
    await open_one.enqueue(job("a", queue="new"))
    other = asyncio.ensure_future(enqueue(store, job("b", queue="new")))
    waits = await held_up(other, QUICK_SECONDS)
    await open_one.commit()
    await other
    assert not waits


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 1, 0)])
async def test_every_job_is_claimed_in_whatever_order_producers_commit(
    store: PostgresStore, producer: Opening, order: tuple[int, ...]
) -> None:
    """Three producers at the three levels, with keys of their own and an open lane together."""
    await enqueue(store, job())
    await drain(store)
    producers = [await producer(isolation) for isolation in ISOLATIONS]
    accepted: list[UUID] = []
    for number, open_one in enumerate(producers):
        accepted += await open_one.enqueue(*jobs(2, f"key {number}"), *jobs(2))
    ran: list[UUID] = []
    for number in order:
        ran += await drain(store)
        await producers[number].commit()
    ran += await drain(store)
    assert sorted(ran) == sorted(accepted)


@every_isolation
async def test_positions_follow_commits(
    store: PostgresStore, producer: Opening, isolation: str
) -> None:
    """Producers race for one key; those that cannot serialize try again, as they are told to."""
    committed: list[UUID] = []

    async def produce(number: int) -> None:
        chance = random.Random(number)
        while True:
            open_one = await producer(isolation)
            try:
                made = await open_one.enqueue(*jobs(chance.randint(1, 3), "a"))
                await asyncio.sleep(chance.random() * 0.02)
                if chance.random() < 0.3:
                    await open_one.rollback()
                    continue
                committed.extend(made)  # nobody else can be between the tail's lock and this
                await open_one.commit()
            except asyncpg.SerializationError:
                assert isolation != "read_committed"
                await open_one.rollback()
                continue
            return

    ran: list[UUID] = []
    producing = asyncio.gather(*(produce(number) for number in range(8)))
    while not producing.done():
        ran += await drain(store, jobs_max=3)
        await asyncio.sleep(0.005)
    await producing
    ran += await drain(store)
    assert ran == committed
    positions = await ask(
        store,
        "select array_agg(position order by position) from inturn.job where id = any($1)",
        ran,
    )
    assert positions == list(range(1, len(ran) + 1))


async def test_a_due_job_whose_lane_is_being_made_keeps_no_other_due_job_waiting(
    store: PostgresStore, producer: Opening
) -> None:
    """Delayed jobs join their lanes in a claim, which waits for no producer, and not for long."""
    await enqueue(store, job("made"), job())
    await drain(store)
    due = await enqueue(store, job("new", delay_seconds=0.05), job("other", delay_seconds=0.05))
    due += await enqueue(store, job("made", delay_seconds=0.05), job(delay_seconds=0.05))
    open_one = await producer()
    [late] = await open_one.enqueue(job("new"))
    await asyncio.sleep(0.1)
    first = await drain(store)
    await open_one.commit()
    second = await drain(store)
    assert sorted(first + second) == sorted([*due, late])
    assert sorted(first) == sorted(due[1:])


async def test_a_caller_with_work_in_its_transaction_commits_all_or_nothing(
    store: PostgresStore, producer: Opening
) -> None:
    await ask(store, "create table public.orders (id integer primary key)")
    for ends in (OpenProducer.rollback, OpenProducer.commit):
        open_one = await producer()
        await open_one.connection.execute("insert into public.orders values (1)")
        await open_one.enqueue(job("a"))
        assert await quickly(claim(store)) == []
        await ends(open_one)
    assert len(await drain(store)) == 1
    assert await ask(store, "select count(*) from public.orders") == 1


async def test_a_lane_learns_what_a_producer_left_in_it_when_it_was_drained(
    store: PostgresStore, producer: Opening
) -> None:
    """Its head was not there when the one before it was done: nobody knew its kind or priority."""
    await enqueue(store, job("a", kind="A"))
    claims = await claim(store, kinds=["A"])
    open_one = await producer()
    made = await open_one.enqueue(job("a", kind="B", priority=100))
    await done(store, claims)
    await enqueue(store, job("b", kind="B", priority=50))
    assert await claim(store, kinds=["A"]) == []
    await open_one.commit()
    assert await claim(store, kinds=["A"]) == []
    assert ids(await claim(store, 1, kinds=["B"])) == made


async def test_the_first_job_of_a_new_queue_in_a_transaction_holds_up_no_other_of_that_queue(
    database: str, store: PostgresStore
) -> None:
    """Also when the transaction holds the only connection that the store may have."""
    alone = PostgresStore(database, connections_max=1)
    await alone.open()
    try:
        async with alone.transaction() as transaction:
            first = await transaction.enqueue([job("a", queue="new"), job(queue="new")])
            others = await quickly(enqueue(store, job("b", queue="new"), job(queue="new")))
        made = [ticket.id for ticket in first] + others
        assert sorted(await drain(store, "new")) == sorted(made)
    finally:
        await alone.close()

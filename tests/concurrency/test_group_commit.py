"""Small enqueues that come at the same time share commits, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from inturn.model.errors import JobConflict, QueueFull
from inturn.model.job import NewJob, Ticket
from inturn.model.lane import QueueSettings
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.producer import Opening
from tests.concurrency.support import (
    QUICK_SECONDS,
    ask,
    drain,
    enqueue,
    held_up,
    job,
    jobs,
    quickly,
)
from tests.concurrency.test_killed_backends import CUT_ALL

COMMITS = "select count(distinct xmin::text) from inturn.job"


async def together(
    store: PostgresStore, batches: Sequence[Sequence[NewJob]], seconds: float = 60
) -> list[list[Ticket] | BaseException]:
    """Enqueue batches at the same time, and wait for all of them."""
    return await quickly(
        asyncio.gather(*(store.enqueue(batch) for batch in batches), return_exceptions=True),
        seconds,
    )


def all_accepted(answers: Sequence[list[Ticket] | BaseException]) -> list[list[Ticket]]:
    return [answer for answer in answers if isinstance(answer, list)]


@pytest.mark.parametrize("key", [None, "a"], ids=["open", "keyed"])
async def test_enqueues_at_the_same_time_share_commits(
    store: PostgresStore, key: str | None
) -> None:
    batches = [jobs(1 + number % 3, key) for number in range(100)]
    answers = await together(store, batches)
    for batch, tickets in zip(batches, answers, strict=True):
        assert isinstance(tickets, list)
        assert [ticket.id for ticket in tickets] == [one.id for one in batch]
        first = tickets[0].position
        assert first is not None
        assert [ticket.position for ticket in tickets] == [first + n for n in range(len(batch))]
    assert await ask(store, COMMITS) < 50
    accepted = [one.id for batch in batches for one in batch]
    assert sorted(await drain(store)) == sorted(accepted)


async def test_a_transaction_left_open_holds_up_its_own_key_only(
    store: PostgresStore, producer: Opening
) -> None:
    await enqueue(store, job("a"), *(job(f"b{number}") for number in range(30)))
    open_one = await producer()
    await open_one.enqueue(job("a"), job("new"))
    held = [asyncio.ensure_future(store.enqueue([job(key)])) for key in ("a", "a", "new")]
    for _ in range(3):
        answers = await together(
            store, [[job(f"b{number}")] for number in range(30)], QUICK_SECONDS
        )
        assert len(all_accepted(answers)) == 30
    for one in held:
        assert await held_up(one, 0.05)
    await open_one.commit()
    await quickly(asyncio.gather(*held))
    assert len(await drain(store)) == 31 + 2 + 90 + 3


async def test_one_that_is_refused_is_refused_alone(store: PostgresStore) -> None:
    known = job("known")
    await enqueue(store, known)
    await store.configure("full", QueueSettings(depth_max=1))
    await enqueue(store, job(queue="full"))
    other_work = NewJob(kind="other", key="known", id=known.id)
    batches = [
        [job("a")], [other_work], [job("b")], [job(queue="full")], [known], [job("c")],
    ]  # fmt: skip
    a, conflict, b, full, again, c = await together(store, batches)
    assert isinstance(conflict, JobConflict)
    assert isinstance(full, QueueFull)
    for batch, tickets in zip(
        [batches[0], batches[2], [known], batches[5]], [a, b, again, c], strict=True
    ):
        assert isinstance(tickets, list)
        assert [ticket.id for ticket in tickets] == [one.id for one in batch]
    assert len(await drain(store)) == 4


async def test_connections_are_cut_under_them_and_each_job_is_stored_once(
    store: PostgresStore, database: str
) -> None:
    async with store.transaction() as transaction:
        for _ in range(5):
            batches = [jobs(2, f"k{number % 7}") for number in range(60)]
            sent = asyncio.ensure_future(together(store, batches))
            await asyncio.sleep(0.002)
            await transaction.execute(CUT_ALL + " and pid <> pg_backend_pid()")
            assert len(all_accepted(await sent)) == 60
    assert len(await drain(store)) == 5 * 120

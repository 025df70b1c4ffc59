"""Transactions: settle, enqueue and the caller's own rows together, or none of them.

Promise P13 of ARCHITECTURE.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from uuid import UUID

import pytest
import pytest_asyncio

from inturn.model.clock import ManualClock
from inturn.model.errors import (
    DedupeConflict,
    InvalidName,
    LeaseLost,
    StoreBusy,
    UnknownDependency,
    UnknownJob,
)
from inturn.model.ids import new_id
from inturn.model.job import JobState
from inturn.policy.verdict import Done
from inturn.store.store import Store
from inturn.store.transaction import Transaction
from tests.contract.support import (
    NOWHERE,
    claim,
    claim_one,
    done,
    enqueue,
    ids,
    job,
    jobs,
    run_all,
    settle,
    state,
    states,
    verdicts,
)

KEYS = pytest.mark.parametrize("key", [None, "a"], ids=["unkeyed", "keyed"])
POSTGRES = pytest.mark.parametrize("store_kind", ["postgres"], indirect=True)


class Oops(Exception):
    """What a caller raises in the middle of its transaction."""


@pytest_asyncio.fixture(loop_scope="session")
async def own(store: Store) -> str:
    """A table of the caller's own, in the store's database."""
    async with store.transaction() as transaction:
        await transaction.execute("create table effect (what text not null)")
    return "effect"


Step = Callable[[Transaction], Awaitable[object]]


async def together(store: Store, *steps: Step) -> None:
    """Write an effect of the caller's own, then take the steps, all in one transaction."""
    async with store.transaction() as transaction:
        await transaction.execute("insert into effect (what) values ('written')")
        for step in steps:
            await step(transaction)


async def effects(store: Store) -> list[str]:
    async with store.transaction() as transaction:
        rows = await transaction.execute("select what from effect order by what")
    return [what for (what,) in rows]


@KEYS
async def test_settle_enqueue_and_own_rows_are_written_together(
    store: Store, other_store: Store, own: str, key: str | None
) -> None:
    [first] = await enqueue(store, job(key=key))
    claims = await claim(store)
    async with store.transaction() as transaction:
        await transaction.execute("insert into effect (what) values ('written')")
        [second] = await enqueue(transaction, job(key=key))
        await settle(transaction, done(claims))
        with pytest.raises(UnknownJob):
            await other_store.job(second)
        assert await state(other_store, first) is JobState.RUNNING
    assert await effects(other_store) == ["written"]
    assert await state(store, first) is JobState.DONE
    assert await run_all(other_store) == [second]


@KEYS
@pytest.mark.parametrize("error", [Oops, asyncio.CancelledError])
async def test_an_error_undoes_all_of_it(
    store: Store, own: str, key: str | None, error: type[BaseException]
) -> None:
    made = await enqueue(store, *jobs(2, key=key))
    claims = await claim(store, 1)
    second = job(key=key)

    async def fails(_: Transaction) -> None:
        raise error

    with pytest.raises(error):
        await together(
            store,
            lambda transaction: settle(transaction, [verdicts(claims[0], Done("1"))]),
            lambda transaction: enqueue(transaction, second),
            fails,
        )
    assert await effects(store) == []
    assert await state(store, made[0]) is JobState.RUNNING
    assert await store.result(made[0]) is None
    with pytest.raises(UnknownJob):
        await store.job(second.id)
    await settle(store, done(claims))
    assert await run_all(store) == made[1:]


@KEYS
async def test_a_lost_lease_spoils_all_of_it(
    store: Store, own: str, clock: ManualClock, key: str | None
) -> None:
    [made] = await enqueue(store, job(key=key))
    stale = await claim(store)
    clock.advance(31)
    await store.reclaim()
    second = job(key=key)
    with pytest.raises(LeaseLost):
        await together(
            store,
            lambda transaction: enqueue(transaction, second),
            lambda transaction: settle(transaction, done(stale)),
        )
    assert await effects(store) == []
    with pytest.raises(UnknownJob):
        await store.job(second.id)
    assert await state(store, made) is JobState.WAITING


async def test_refused_jobs_and_a_bad_statement_spoil_all_of_it(store: Store, own: str) -> None:
    await enqueue(store, job(dedupe="d", payload="1"))
    with pytest.raises(DedupeConflict):
        await together(store, lambda mine: enqueue(mine, job(dedupe="d", payload="2")))
    with pytest.raises(InvalidName):
        await together(store, lambda mine: enqueue(mine, job(key="")))
    with pytest.raises(Exception, match="nowhere"):
        await together(store, lambda mine: mine.execute("insert into nowhere values (1)"))
    assert await effects(store) == []


async def test_an_effect_and_its_job_are_exactly_once(
    store: Store, own: str, clock: ManualClock
) -> None:
    """A handler that is run twice, because it was slow, has one effect."""
    await enqueue(store, job())
    slow = await claim_one(store)
    clock.advance(31)
    await store.reclaim()
    quick = await claim_one(store, worker="w2")
    for claimed in (quick, slow):
        with suppress(LeaseLost):
            async with store.transaction() as transaction:
                await transaction.execute("insert into effect (what) values ('once')")
                await settle(transaction, done([claimed]))
    assert await effects(store) == ["once"]


async def test_later_jobs_of_a_transaction_see_the_earlier_ones(store: Store) -> None:
    async with store.transaction() as transaction:
        [one] = await transaction.enqueue([job(key="a", dedupe="d")])
        [two] = await transaction.enqueue([job(key="a")])
        [again] = await transaction.enqueue([job(key="a", dedupe="d")])
        [last] = await transaction.enqueue([job(after=frozenset({one.id, two.id}))])
    assert (one.position, two.position) == (1, 2)
    assert (again.id, again.duplicate) == (one.id, True)
    assert await run_all(store) == [one.id, two.id, last.id]


async def test_a_job_may_wait_for_the_one_that_is_settled_beside_it(store: Store) -> None:
    [first] = await enqueue(store, job())
    claims = await claim(store)
    async with store.transaction() as transaction:
        await settle(transaction, done(claims))
        [second] = await enqueue(transaction, job(after=frozenset({first})))
    assert ids(await claim(store)) == [second]


async def test_a_verb_that_fails_inside_leaves_the_rest_of_the_transaction(store: Store) -> None:
    """What was acknowledged inside the block is stored, though the caller looked away once."""
    await store.enqueue([job(dedupe="d", payload="1")])
    async with store.transaction() as transaction:
        [kept] = await transaction.enqueue([job()])
        with suppress(DedupeConflict):
            await transaction.enqueue([job(dedupe="d", payload="2")])
        with suppress(UnknownDependency):
            await transaction.enqueue([job(after=frozenset({new_id()}))])
    assert (await store.job(kept.id)).state is JobState.WAITING


async def test_a_lost_lease_that_was_caught_is_raised_at_the_end(store: Store) -> None:
    await enqueue(store, job())
    claims = await claim(store)
    await settle(store, done(claims))
    made: list[UUID] = []

    async def look_away() -> None:
        async with store.transaction() as transaction:
            made.extend(ticket.id for ticket in await transaction.enqueue([job()]))
            with suppress(LeaseLost):
                await transaction.settle(done(claims), worker="w1")

    with pytest.raises(LeaseLost):
        await look_away()
    with pytest.raises(UnknownJob):
        await store.job(made[0])


async def test_cancels_and_gates_are_written_with_the_rest(
    store: Store, other_store: Store, own: str
) -> None:
    [first] = await enqueue(store, job(round=1))
    await store.open_gate("default", 1)

    async def cancel(transaction: Transaction) -> None:
        assert await transaction.cancel(first, by="ann") is JobState.CANCELLED
        assert await state(other_store, first) is JobState.WAITING

    async def fails(_: Transaction) -> None:
        raise Oops

    steps: list[Step] = [
        cancel,
        lambda transaction: enqueue(transaction, job(round=5)),
        lambda transaction: transaction.advance_gate("default"),
        lambda transaction: transaction.open_gate("new", 2),
    ]
    with pytest.raises(Oops):
        await together(store, *steps, fails)
    assert await state(store, first) is JobState.WAITING
    assert [(one.name, one.gate) for one in await store.queues() if one.gate] == [("default", 1)]
    await together(store, *steps)
    assert await state(store, first) is JobState.CANCELLED
    gates = {one.name: one.gate for one in await store.queues()}
    assert gates == {"default": 5, "new": 2}
    with pytest.raises(UnknownJob):
        await together(store, lambda transaction: transaction.cancel(NOWHERE, by="ann"))


@POSTGRES
async def test_a_verb_that_crosses_another_s_work_is_tried_again_then_busy(
    store: Store, other_store: Store, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the transaction can go on without it."""
    monkeypatch.setattr("inturn.store.postgres.transaction.CROSSED_SECONDS", (0.01, 0.01))
    [first] = await enqueue(store, job())
    [second] = await enqueue(store, job(after=frozenset({first})))
    async with other_store.transaction() as other:
        await other.execute("select from inturn.blocked for update")
        async with store.transaction() as transaction:
            await transaction.execute("insert into effect (what) values ('written')")
            with pytest.raises(StoreBusy, match="again and again"):
                await transaction.cancel(first, by="ann")
    assert await effects(store) == ["written"]
    assert await states(store, [first, second]) == [JobState.WAITING, JobState.BLOCKED]

    monkeypatch.setattr("inturn.store.postgres.transaction.CROSSED_SECONDS", (1.0,) * 60)

    async def cancel() -> None:
        async with store.transaction() as transaction:
            await transaction.cancel(first, by="ann")

    async with other_store.transaction() as other:
        await other.execute("select from inturn.blocked for update")
        cancelling = asyncio.create_task(cancel())
        await asyncio.sleep(0.1)
        assert not cancelling.done()
    await cancelling
    assert await states(store, [first, second]) == [JobState.CANCELLED, JobState.DEAD]

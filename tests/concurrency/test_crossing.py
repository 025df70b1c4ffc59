"""Verbs that meet on the same rows from both sides: none waits for the other for ever."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from inturn.model.job import JobState, NewJob
from inturn.model.lease import Claim, Wish
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done, Retry, Verdict
from inturn.store.change import Change
from inturn.store.postgres.sql import called
from inturn.store.postgres.store import PostgresStore
from tests.concurrency.producer import Opening
from tests.concurrency.support import (
    QUICK_SECONDS,
    claim,
    drain,
    enqueue,
    held_up,
    ids,
    job,
    quickly,
    state,
)


async def test_two_transactions_settle_in_one_lane_and_enqueue_into_the_others(
    store: PostgresStore,
) -> None:
    await enqueue(store, job("a"), job("b"))
    [one], [other] = await claim(store, 1), await claim(store, 1)
    async with store.transaction() as t1, store.transaction() as t2:
        await t1.settle([Settlement.done(one)], worker="w")
        await t2.settle([Settlement.done(other)], worker="w")
        await quickly(t1.enqueue([job(other.lease.key)]))
        await quickly(t2.enqueue([job(one.lease.key)]))
    assert len(await drain(store)) == 2
    assert await store.check() == []


async def test_transactions_settle_cancel_and_enqueue_in_the_lanes_of_each_other(
    store: PostgresStore,
) -> None:
    """In this order, which is that of a handler's transaction at its commit. Where two cancel in
    each other's way, one is undone and goes on after the other.
    """
    tries = 8
    lanes = [f"l{number}" for number in range(4)]
    await enqueue(store, *(job(lane) for lane in lanes * tries))

    async def work(number: int) -> None:
        choice = random.Random(number)
        for _ in range(tries):
            claims = await claim(store, 1)
            if not claims:
                continue
            waiting = await store.jobs(state=JobState.WAITING, rows_max=20)
            some = choice.sample(waiting.rows, min(3, len(waiting.rows)))
            async with store.transaction() as t:
                await t.apply(
                    Change(
                        settle=[Settlement.done(one) for one in claims],
                        worker="w",
                        cancel=[view.job.id for view in some],
                        by="a test",
                        enqueue=[job(lane) for lane in choice.sample(lanes, 2)],
                    )
                )

    await asyncio.wait_for(asyncio.gather(*map(work, range(4))), 60.0)
    await drain(store)
    assert await store.check() == []


async def test_a_dead_letter_is_retried_while_its_lane_is_appended_to(
    store: PostgresStore, producer: Opening
) -> None:
    await enqueue(store, job("a"))
    await enqueue(store, job("b"))
    [first] = await claim(store, 1)
    [dead] = first.jobs
    await store.settle([Settlement(first.lease, [Outcome(dead, Bury("no"))])], worker="w")
    open_one = await producer()
    await open_one.enqueue(job("b"))
    appending = asyncio.create_task(store.enqueue([job("a"), job("b")]))
    await asyncio.sleep(0.2)
    retrying = asyncio.create_task(store.dead_retry([dead.id]))
    await asyncio.sleep(0.2)
    await open_one.commit()
    await quickly(appending)
    assert await quickly(retrying) == [dead.id]
    assert dead.id in await drain(store)


async def test_a_job_that_waits_for_one_being_cancelled_is_not_left_blocked(
    store: PostgresStore, producer: Opening
) -> None:
    await enqueue(store, job("a"))
    [awaited] = await enqueue(store, job("a"))
    async with store.transaction() as t:
        await t.execute(called("select inturn.cancel($1, 'me', null)"), awaited)
        [waiting] = await enqueue(store, job("b", after=frozenset({awaited})))
        await quickly(store.reclaim())
    for _ in range(2):
        await store.reclaim()
    assert (await store.job(waiting)).state is JobState.DEAD
    assert ids(await claim(store)) != []


async def test_a_turn_has_settled_before_it_waits_for_an_open_lane(store: PostgresStore) -> None:
    """While it waits, others who want what it settled need not wait for it."""
    await enqueue(store, job())
    await drain(store)
    [settled] = await enqueue(store, job("a", priority=1))
    [one] = await claim(store, 1)
    [waiting] = await enqueue(store, job())
    async with store.transaction() as other:
        await other.execute("select id from inturn.lane where key is null for no key update")
        turning = asyncio.ensure_future(
            store.turn([Settlement.done(one)], "default", jobs_max=9, worker="w1")
        )
        async with asyncio.timeout(QUICK_SECONDS):
            while await state(store, settled) is not JobState.DONE:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await held_up(turning)
        await quickly(store.enqueue([job("a")]))
    assert waiting in ids(await quickly(turning))


async def test_who_lets_jobs_join_a_lane_does_not_wait_for_it(store: PostgresStore) -> None:
    """A settle holds its lanes, and may wait for a blocked job that a claim lets join one."""
    await enqueue(store, job("b"))
    await drain(store)
    await enqueue(store, job("a", priority=1))
    [one] = await claim(store, 1)
    [due] = await enqueue(store, job("b", delay_seconds=0.01))
    await asyncio.sleep(0.02)
    async with store.transaction() as other:
        await other.execute("select id from inturn.lane where key = 'b' for no key update")
        assert await quickly(claim(store)) == []
        await quickly(store.turn([Settlement.done(one)], "default", jobs_max=9, worker="w1"))
    assert await drain(store) == [due]


class Watched(PostgresStore):
    """A store that remembers the claims that failed: a turn that has settled hides them."""

    def __init__(self, url: str) -> None:
        super().__init__(url, connections_max=20)
        self.failed: list[Exception] = []

    async def _claim(self, wish: Wish) -> list[Claim]:
        try:
            return await super()._claim(wish)
        except Exception as error:
            self.failed.append(error)
            raise


JOBS_MIN = 200


class Crossing:
    """Workers who take turns, producers and an operator, on a few keys and kinds.

    With ``transactions``, producers settle in one lane and enqueue into others in transactions that
    take their time.
    """

    def __init__(self, store: PostgresStore, seconds: float, *, transactions: bool) -> None:
        self.store = store
        self._transactions = transactions
        self.accepted: list[UUID] = []
        self.done: Counter[UUID] = Counter()
        self._ends_at = time.monotonic() + seconds
        self._produced, self._over = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(self._take_turns(random.Random(number)))
            group.create_task(self._retry_dead_letters())
            producing = [group.create_task(self._produce(random.Random(n))) for n in range(2)]
            for number in range(3 if self._transactions else 0):
                producing.append(group.create_task(self._cross(random.Random(number))))
            await asyncio.wait(producing)
            self._produced.set()

    def _goes_on(self) -> bool:
        """Until the time is over, and also on a slow machine enough was seen."""
        return time.monotonic() < self._ends_at or len(self.accepted) <= JOBS_MIN

    async def _take_turns(self, chance: random.Random) -> None:
        claims: list[Claim] = []
        while claims or not self._over.is_set():
            settlements = [self._judged(one, chance) for one in claims]
            jobs_max = chance.choice((1, 3, 10))
            claims = await self.store.turn(settlements, "default", jobs_max=jobs_max, worker="w")
            self._count(settlements)
            await asyncio.sleep(0 if claims else 0.002)

    def _judged(self, claim: Claim, chance: random.Random) -> Settlement:
        """Say mostly that jobs are done; once the time is over, only that."""
        outcomes: list[Outcome] = []
        for held in claim.jobs:
            said: Verdict = Done()
            if self._goes_on() and chance.random() < 0.15:
                said = chance.choice((Bury("no"), Retry(0.0, "boom")))
            outcomes.append(Outcome(held, said))
            if claim.lease.key is not None and not isinstance(said, Done):
                break
        return Settlement(claim.lease, outcomes)

    def _count(self, settlements: list[Settlement]) -> None:
        self.done.update(
            outcome.job.id
            for settlement in settlements
            for outcome in settlement.outcomes
            if isinstance(outcome.verdict, Done)
        )

    async def _produce(self, chance: random.Random) -> None:
        while self._goes_on():
            batch = [self._new_job(chance) for _ in range(chance.randint(1, 6))]
            self.accepted += await enqueue(self.store, *batch)
            await asyncio.sleep(0.005)

    async def _cross(self, chance: random.Random) -> None:
        while self._goes_on():
            claims = await claim(self.store, 2)
            settlements = [Settlement.done(one) for one in claims]
            batch = [self._new_job(chance) for _ in range(3)]
            async with self.store.transaction() as transaction:
                await transaction.settle(settlements, worker="w1")
                await asyncio.sleep(chance.random() * 0.01)
                await transaction.enqueue(batch)
                await asyncio.sleep(chance.random() * 0.01)
            self._count(settlements)
            self.accepted += [one.id for one in batch]

    def _new_job(self, chance: random.Random) -> NewJob:
        options: dict[str, Any] = {"kind": chance.choice("kl"), "attempts_max": 3}
        if self.accepted and chance.random() < 0.3:
            options["after"] = frozenset(chance.choices(self.accepted[-40:], k=2))
        elif chance.random() < 0.3:
            options["delay_seconds"] = chance.choice((0.001, 0.03))
        return job(chance.choice((None, "a", "b", "c")), **options)

    async def _retry_dead_letters(self) -> None:
        while not self._over.is_set():
            letters = (await self.store.dead_letters()).rows
            await self.store.dead_retry([letter.job.id for letter in letters])
            await self.store.reclaim()
            if self._produced.is_set() and await self._is_empty():
                self._over.set()
            await asyncio.sleep(0.02)

    async def _is_empty(self) -> bool:
        [found] = await self.store.queues()
        live = found.waiting + found.running + found.retrying + found.scheduled + found.blocked
        return live + found.dead == 0


@pytest.mark.parametrize("transactions", [True, False], ids=["transactions", "dead letters"])
async def test_turns_wait_for_nobody_who_waits_for_them(
    store: PostgresStore, database: str, transactions: bool
) -> None:
    """What joins lanes meets what settles in them: no deadlock, nothing lost, nothing twice."""
    watched = Watched(database)
    await watched.open()
    try:
        crossing = Crossing(watched, seconds=2.5, transactions=transactions)
        await crossing.run()
    finally:
        await watched.close()
    assert watched.failed == []
    assert len(crossing.accepted) > JOBS_MIN
    assert crossing.done == Counter(crossing.accepted)

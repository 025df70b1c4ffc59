"""What a barrier of a durable executor tells: each failure once, and only what came before it.

The store knows of an end before the executor has its answer, so that two may learn of it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from inturn.model import bounds
from inturn.model.errors import EarlierFailure, JobFailed
from inturn.model.ids import new_id
from inturn.model.job import JobState
from inturn.model.lane import OnDead, QueueSettings
from inturn.model.lease import Claim
from inturn.store.protocol import Store
from inturn.worker.awaited import Awaited
from inturn.worker.durable import DurableExecutor
from inturn.worker.ends import Ends
from inturn.worker.failures import Failures
from tests.contract.support import bury, claim_one, done, enqueue, fail, job, jobs, settle
from tests.executor.durable_shop import Shop, running, until
from tests.executor.support import SECONDS_MAX, Seen


@pytest.fixture
def answers(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Answers:
    return Answers(shop, monkeypatch)


class Answers:
    """The answers of a store to those who settle: they come when ``come`` is set."""

    def __init__(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        self._shop, self._monkeypatch = shop, monkeypatch
        self.come = asyncio.Event()
        self.seen = Seen()

    @asynccontextmanager
    async def late(self) -> AsyncIterator[DurableExecutor]:
        """An executor that hears late what became of its jobs."""
        store = await self._shop.app.lend()
        for verb in ("settle", "turn"):
            self._monkeypatch.setattr(store, verb, self._held(getattr(store, verb)))
        async with running(self._shop, error_handler=self.seen.handle) as executor:
            try:
                yield executor
            finally:
                self.come.set()

    async def heard(self, failures: int = 1) -> None:
        """Let the answers come, and wait until the executor knows of so many failures."""
        self.come.set()
        await until(lambda: len(self.seen.failures) == failures)

    def _held(self, verb: Any) -> Any:
        async def held(settlements: Any, *args: Any, **options: Any) -> Any:
            answer = await verb(settlements, *args, **options)
            if settlements:
                await self.come.wait()
            return answer

        return held


async def test_004_15_a_failure_that_a_barrier_found_in_the_store_is_not_told_again(
    shop: Shop, answers: Answers
) -> None:
    never = declared_failing(shop)
    async with answers.late() as executor:
        await executor.submit("a", never.call())
        with pytest.raises(EarlierFailure) as raised:
            await executor.barrier("a")
        assert (raised.value.failures, raised.value.error) == (1, "ConnectionError: no line")
        await answers.heard()
        await executor.barrier("a")


async def test_004_15_a_failure_that_run_has_raised_is_told_by_the_next_barrier_and_only_there(
    shop: Shop, answers: Answers
) -> None:
    never = declared_failing(shop)
    async with answers.late() as executor:
        with pytest.raises(JobFailed):
            await executor.run("a", never.call())
        with pytest.raises(EarlierFailure, match="no line"):
            await executor.barrier("a")
        await executor.barrier("a")
        await answers.heard()
        await executor.barrier("a")


@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "late"])
async def test_004_15_of_barriers_at_the_same_place_one_tells(
    shop: Shop, answers: Answers, is_late: bool
) -> None:
    @shop.app.job(attempts=1)
    async def fails() -> None:
        await shop.gate.wait()
        raise ConnectionError("no line")

    if not is_late:
        answers.come.set()
    async with answers.late() as executor:
        await executor.submit("a", fails.call())
        barriers = [asyncio.create_task(executor.barrier("a")) for _ in range(3)]
        await until(lambda: len(executor._ends._waiting) >= len(barriers))
        shop.gate.set()
        async with asyncio.timeout(SECONDS_MAX / 2):
            ends = await asyncio.gather(*barriers, return_exceptions=True)
        assert sorted(type(end).__name__ for end in ends) == ["EarlierFailure"] + ["NoneType"] * 2
        await answers.heard()
        await executor.barrier("a")


async def test_004_15_a_failure_of_what_came_later_is_left_to_the_next_barrier(
    shop: Shop,
) -> None:
    seen, never = Seen(), declared_failing(shop, queue="another")
    async with running(shop, error_handler=seen.handle) as executor:
        await executor.submit("a", shop.wait.call())
        barrier = asyncio.create_task(executor.barrier("a"))
        await until(lambda: bool(executor._ends._waiting))
        await executor.submit("a", never.call())  # in a line of its own, past what waits
        await until(lambda: len(seen.failures) == 1)
        shop.gate.set()
        await barrier
        with pytest.raises(EarlierFailure, match="no line"):
            await executor.barrier("a")
        await executor.barrier("a")


async def test_a_halted_key_tells_a_failure_no_more_once_it_is_led_on(
    shop: Shop, answers: Answers
) -> None:
    never = declared_failing(shop)
    halting = QueueSettings(on_dead=OnDead.HALT)
    await shop.app.run(lambda store: store.configure("default", halting))
    async with answers.late() as executor:
        await executor.submit_many([("a", never.call()), ("a", shop.write.call("a", 1))])
        with pytest.raises(EarlierFailure) as raised:
            await executor.barrier("a")
        await answers.heard()
        with pytest.raises(EarlierFailure) as again:
            await executor.barrier("a")
        for one in (raised.value, again.value):
            assert (one.failures, one.error) == (1, "ConnectionError: no line")
        await shop.app.run(lambda store: store.skip_lane("default", "a"))
        await executor.barrier("a")
    assert shop.ran["a"] == [1]


async def test_a_dead_letter_that_is_taken_back_and_fails_again_is_told_again(
    shop: Shop, answers: Answers
) -> None:
    never = declared_failing(shop)
    async with answers.late() as executor:
        ticket = await executor.submit("a", never.call())
        for failures in (1, 2):
            with pytest.raises(EarlierFailure):
                await executor.barrier("a")
            await answers.heard(failures)
            await executor.barrier("a")
            await shop.app.run(lambda store: store.dead_retry([ticket.id]))


async def test_a_barrier_of_another_loop_that_is_cancelled_as_it_tells_leaves_it_to_the_next(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    never, is_cancelled = declared_failing(shop), threading.Event()
    async with running(shop) as executor:
        line = executor._awaited.line
        cancel: list[Any] = []

        async def told_as_it_is_cancelled(*args: Any) -> None:
            try:
                await line(*args)
            finally:
                cancel.pop()()
                assert is_cancelled.wait(SECONDS_MAX)

        async def elsewhere() -> None:
            loop, barrier = asyncio.get_running_loop(), asyncio.create_task(executor.barrier("a"))

            def stop() -> None:
                barrier.cancel()
                loop.call_soon(loop.call_soon, is_cancelled.set)

            cancel.append(lambda: loop.call_soon_threadsafe(stop))
            with pytest.raises(asyncio.CancelledError):
                await barrier

        await executor.submit("a", never.call())
        monkeypatch.setattr(executor._awaited, "line", told_as_it_is_cancelled)
        await asyncio.to_thread(asyncio.run, elsewhere())
        monkeypatch.undo()
        with pytest.raises(EarlierFailure, match="no line"):
            await executor.barrier("a")
        await executor.barrier("a")


# Jobs that run elsewhere: of them only the store tells


@pytest.mark.parametrize(
    ("at_first", "goes_on_after"),
    [
        *((JobState.WAITING, reads) for reads in ({1}, {2}, {3}, {1, 3})),
        *((JobState.RUNNING, reads) for reads in ({1}, {2}, {3}, {1, 2})),
        *((JobState.RETRYING, reads) for reads in ({1}, {2}, {3})),
    ],
)
async def test_a_job_that_goes_on_while_a_barrier_looks_is_not_missed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, at_first: JobState, goes_on_after: set[int]
) -> None:
    store, waiting = await shop.app.lend(), awaited()
    elsewhere = Elsewhere(store)
    await enqueue(store, *jobs(2, key="a"))
    while elsewhere.state is not at_first:
        await elsewhere.go_on()
    read, reads = store.jobs, iter(range(1, 100))

    async def moving(**options: Any) -> Any:
        page = await read(**options)
        if next(reads) in goes_on_after:
            await elsewhere.go_on()
        return page

    monkeypatch.setattr(store, "jobs", moving)
    barrier = asyncio.create_task(waiting.line(store, ["default"], "a"))
    await until(lambda: bool(waiting._ends._waiting))
    await elsewhere.die()
    await settle(store, done([await claim_one(store)]))
    with pytest.raises(EarlierFailure) as raised:
        await barrier
    assert raised.value.failures == 1


async def test_a_barrier_that_is_given_up_leaves_what_it_found_to_the_next(shop: Shop) -> None:
    store, waiting = await shop.app.lend(), awaited()
    await enqueue(store, *jobs(3, key="a"))
    first = await claim_one(store)
    given_up = asyncio.create_task(waiting.line(store, ["default"], "a"))
    await until(lambda: bool(waiting._ends._waiting))
    await settle(store, bury(first, "first"))
    await settle(store, bury(await claim_one(store), "second"))
    failures = waiting._ends.failures
    await until(lambda: len(failures._untold) == 1 and len(failures._untold["a"].errors) == 2)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    await settle(store, done([await claim_one(store)]))
    with pytest.raises(EarlierFailure) as raised:
        await waiting.line(store, ["default"], "a")
    assert (raised.value.failures, raised.value.error) == (2, "first")
    await waiting.line(store, ["default"], "a")


async def test_what_fails_elsewhere_and_is_taken_back_and_fails_again_is_told_again(
    shop: Shop,
) -> None:
    store, waiting = await shop.app.lend(), awaited()
    [failing] = await enqueue(store, job(key="a"))
    for _ in range(2):
        barrier = asyncio.create_task(waiting.line(store, ["default"], "a"))
        await until(lambda: bool(waiting._ends._waiting))
        await settle(store, bury(await claim_one(store)))
        with pytest.raises(EarlierFailure):
            await barrier
        await waiting.line(store, ["default"], "a")
        await store.dead_retry([failing])


async def test_a_key_that_is_halted_just_as_a_barrier_looks_tells_its_failure_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, ends = await shop.app.lend(), Ends([], None)
    await store.configure("default", QueueSettings(on_dead=OnDead.HALT))
    await enqueue(store, *jobs(2, key="a"))
    claim = await claim_one(store)
    ends.claimed("default", [claim])
    read, reads = store.lanes, iter(range(1, 100))

    async def halting(*args: Any, **options: Any) -> Any:
        if next(reads) == 2:  # the first is of who looks what stands in line
            await settle(store, bury(claim, "no line"))
        return await read(*args, **options)

    monkeypatch.setattr(store, "lanes", halting)
    with pytest.raises(EarlierFailure) as raised:
        await awaited(ends).line(store, ["default"], "a")
    assert (raised.value.failures, raised.value.error) == (1, "no line")
    ends.settled(bury(claim, "no line"))
    await store.skip_lane("default", "a")
    await settle(store, done([await claim_one(store)]))
    await awaited(ends).line(store, ["default"], "a")


async def test_a_job_that_was_lost_and_failed_elsewhere_is_told_once(shop: Shop) -> None:
    store, ends = await shop.app.lend(), Ends([], None)
    waiting = awaited(ends)
    [lost] = await enqueue(store, job(key="a"))
    claim = await claim_one(store)
    ends.claimed("default", [claim])
    await settle(store, bury(claim))  # and this executor never hears of it
    with pytest.raises(EarlierFailure):
        await waiting.line(store, ["default"], "a")
    await waiting.line(store, ["default"], "a")
    await store.dead_retry([lost])
    claim = await claim_one(store)
    ends.claimed("default", [claim])
    await settle(store, bury(claim))
    ends.settled(bury(claim))
    with pytest.raises(EarlierFailure):  # for it has failed once more
        await waiting.line(store, ["default"], "a")


# What is remembered


def test_a_key_that_fails_for_ever_costs_no_more_than_one_that_failed_once() -> None:
    failures = Failures()
    for n in range(1000):
        failures.heard("a", new_id(), f"{n} failed")
    assert not failures._untold["a"].errors
    with failures.barrier("a") as barrier:
        failures.cover(barrier, [])
        told = failures.tell(barrier)
    assert told is not None
    assert (told.failures, told.error) == (1000, "0 failed")
    assert not failures._untold
    assert not failures._barriers


def test_what_fails_while_a_barrier_looks_is_its_business_and_what_fails_then_the_nexts() -> None:
    failures = Failures()
    with failures.barrier("a") as barrier:
        failures.heard("a", new_id(), "early")
        failures.cover(barrier, [])
        failures.heard("a", new_id(), "late")
        told = failures.tell(barrier)
    assert told is not None
    assert (told.failures, told.error) == (1, "early")
    assert not failures._untold["a"].errors, "nobody waits who would have to know which it was"
    with failures.barrier("a") as barrier:
        told = failures.tell(barrier)
    assert told is not None
    assert (told.failures, told.error) == (1, "late")


def test_failures_of_the_keys_that_failed_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "FAILED_KEYS_MAX", 2)
    failures = Failures()
    for key in ("a", "b", "a", "c"):
        failures.heard(key, new_id(), "failed")
    assert list(failures._untold) == ["a", "c"]


class Elsewhere:
    """A worker that has the first job of a line, and takes it on from state to state."""

    def __init__(self, store: Store) -> None:
        self._store, self.state = store, JobState.WAITING
        self._claims: list[Claim] = []

    async def go_on(self) -> None:
        if self.state is JobState.RUNNING:
            await settle(self._store, fail(self._claims.pop(), delay=0))
            self.state = JobState.RETRYING
        else:
            self._claims.append(await claim_one(self._store))
            self.state = JobState.RUNNING

    async def die(self) -> None:
        if self.state is not JobState.RUNNING:
            await self.go_on()
        await settle(self._store, bury(self._claims.pop()))


def awaited(ends: Ends | None = None) -> Awaited:
    """What an executor waits for whose worker takes nothing."""
    return Awaited(ends or Ends([], None), lambda: None, lambda queue, kind: False)


def declared_failing(shop: Shop, **options: Any) -> Any:
    """Declare a job that fails for good at once."""

    async def never() -> None:
        raise ConnectionError("no line")

    return shop.app.job(attempts=1, **options)(never)

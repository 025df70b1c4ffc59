"""A drain runs what may run, on a real worker and a clock moved by hand, and says what it did."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from inturn.model.errors import BadInput, JobFailed
from inturn.model.job import JobState
from inturn.queue.context import Context
from inturn.testing import private
from inturn.testing.errors import DrainTimeout
from tests.testing import process_jobs
from tests.testing.conftest import START, Shop


async def test_what_may_run_runs_and_what_it_submits_runs_too(shop: Shop, store: str) -> None:
    async with private(shop.app, store=store) as sandbox:
        first = await shop.charge.submit("ann", amount=3)
        drained = await sandbox.drain()
        assert shop.ran == [("ann", 3, 1), "ann@b.c"]
        assert str(drained) == "2 done, 0 retried, 0 dead"
        assert [one.kind for one in drained.done] == ["charge", "send"]
        assert (drained.ran[0].id, drained.ran[0].end) == (first.id, "done")
        assert await first.result(timeout=1) == "ANN"
        assert (await sandbox.drain()).ran == []


def test_a_test_that_is_not_async_drains_too(shop: Shop, store: str) -> None:
    with private(shop.app, store=store) as sandbox:
        ticket = shop.charge.submit_sync("ann", amount=3)
        assert len(sandbox.drain_sync().done) == 2
        assert shop.app.sync(ticket.result(timeout=1)) == "ANN"


async def test_each_key_runs_in_order(shop: Shop, store: str) -> None:
    async with private(shop.app, store=store) as sandbox:
        calls = [shop.send.using(key=f"k{n % 3}").call(f"k{n % 3} {n}") for n in range(60)]
        await shop.app.submit_many(calls)
        assert len((await sandbox.drain()).done) == 60
    for key in ("k0", "k1", "k2"):
        numbers = [int(one.split()[1]) for one in shop.ran if one.startswith(key)]
        assert numbers == sorted(numbers)


async def test_a_job_that_one_look_passes_over_is_found_by_the_next(
    shop: Shop, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PostgreSQL does with a lane that someone has locked for a moment."""
    async with private(shop.app, store=store) as sandbox:
        await shop.send.submit("locked")
        lent: Any = await shop.app.lend()
        claim, looks = lent._store.claim, Counter[str]()

        async def passing_over(queue: str, **options: Any) -> Any:
            looks[queue] += 1
            return [] if looks[queue] == 1 else await claim(queue, **options)

        monkeypatch.setattr(lent._store, "claim", passing_over)
        assert len((await sandbox.drain()).done) == 1
    assert shop.ran == ["locked"]


async def test_a_handlers_error_is_raised_when_all_has_run(shop: Shop, store: str) -> None:
    shop.fails = {"bad", "worse"}
    async with private(shop.app, store=store) as sandbox:
        lane = shop.send.using(key="k")
        await shop.app.submit_many([lane.call("bad"), shop.send.call("good")])
        with pytest.raises(ValueError, match="no bad") as raised:
            await sandbox.drain()
        assert sorted(shop.ran) == ["bad", "good"]
        assert raised.traceback[-1].name == "send"
        [note] = raised.value.__notes__
        assert "attempt 1 of 3" in note
        assert "raising=False" in note


@dataclass(frozen=True)
class Frozen(Exception):
    id: int = 7


class Unsettable(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise RuntimeError("leave me alone")


class Unspeakable(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no words")

    __str__ = __repr__


@pytest.mark.parametrize("kind", [Frozen, Unsettable, Unspeakable])
@pytest.mark.parametrize("is_async", [True, False])
async def test_the_error_of_a_handler_is_raised_and_noted_whatever_it_lets_be_done_to_it(
    shop: Shop, kind: type[Exception], is_async: bool
) -> None:
    raised: list[Exception] = []

    def fail() -> None:
        raised.append(kind())
        raise raised[-1]

    async def fail_on_loop() -> None:
        fail()

    job = shop.app.job(kind="fails", attempts=1)(fail_on_loop if is_async else fail)
    async with private(shop.app) as sandbox:
        await shop.app.submit_many([job.call(), job.call()])
        with pytest.raises(kind) as found:
            await sandbox.drain()
    assert found.value is raised[0]
    [note] = found.value.__notes__
    assert "raised by job 'fails'" in note
    assert "also failed: job 'fails'" in note


async def test_errors_are_returned_if_they_are_not_to_be_raised(shop: Shop, store: str) -> None:
    shop.fails = {"bad", "ann"}
    async with private(shop.app, store=store) as sandbox:
        ticket = await shop.send.submit("bad")
        rejected = await shop.charge.submit("ann", amount=1)
        drained = await sandbox.drain(raising=False)
        assert [one.id for one in drained.retried] == [ticket.id]
        assert [one.id for one in drained.dead] == [rejected.id]
        assert repr(drained.retried[0].error) == "ValueError('no bad')"
        with pytest.raises(JobFailed, match="ann is closed"):
            await rejected.result(timeout=1)


async def test_retries_wait_until_the_clock_is_moved(shop: Shop, store: str) -> None:
    shop.fails = {"bad"}
    async with private(shop.app, store=store) as sandbox:
        ticket = await shop.send.using(key="k").submit("bad")
        await shop.send.using(key="k").submit("behind")  # claimed with it, and given back with it
        assert len((await sandbox.drain(raising=False, slots=10)).retried) == 1
        assert (await sandbox.drain()).ran == []
        sandbox.clock.advance(9.9)
        assert (await sandbox.drain()).ran == []
        sandbox.clock.advance("100ms")
        assert len((await sandbox.drain(raising=False)).retried) == 1
        assert (await ticket.status()).run_at == START + timedelta(seconds=30)
        sandbox.clock.advance("20s")
        drained = await sandbox.drain(raising=False)
        assert ([one.attempt for one in drained.dead], len(drained.done)) == ([3], 1)
        assert shop.ran == ["bad", "bad", "bad", "behind"]


async def test_a_drain_can_let_time_pass_from_one_due_job_to_the_next(
    shop: Shop, store: str
) -> None:
    seen: list[float] = []

    async with private(shop.app, store=store) as sandbox:

        @shop.app.job
        async def tick(left: int) -> None:
            seen.append((sandbox.clock.now() - START).total_seconds())
            if left:
                await tick.using(delay=600).submit(left - 1)

        await tick.submit(10)
        await shop.send.using(delay=86_400).submit("tomorrow")
        drained = await sandbox.drain(advance="1h")
        assert seen == [0, 600, 1200, 1800, 2400, 3000, 3600]
        assert len(drained.done) == 7
        assert sandbox.clock.now() == START + timedelta(hours=1)
        await sandbox.drain(advance=86_400 - 3600)
        assert shop.ran == ["tomorrow"]


async def test_a_handler_may_move_the_clock_further_than_the_drain_would(shop: Shop) -> None:
    async with private(shop.app) as sandbox:

        @shop.app.job
        async def sleep() -> None:
            sandbox.clock.advance(20)

        await sleep.submit()
        await shop.send.using(delay=15).submit("a")
        assert len((await sandbox.drain(advance=10)).done) == 2
        assert sandbox.clock.now() == START + timedelta(seconds=20)


async def test_asking_to_come_later_is_no_error(shop: Shop) -> None:
    shop.fails = {60.0}
    async with private(shop.app) as sandbox:
        await shop.call_back.submit(60.0)
        assert len((await sandbox.drain()).retried) == 1
        assert len((await sandbox.drain(advance="1m")).done) == 1


async def test_dedupe_windows_follow_the_clock(shop: Shop, store: str) -> None:
    async with private(shop.app, store=store) as sandbox:
        once = shop.send.using(dedupe="mail-42", dedupe_seconds=60.0)
        first = await once.submit("a")
        assert (await once.submit("a")).id == first.id
        assert len(sandbox.submitted(shop.send)) == 1
        sandbox.clock.advance("61s")
        assert (await once.submit("a")).id != first.id
        assert len(sandbox.submitted(once, "a")) == 2


async def test_a_lost_lease_is_taken_back_when_its_time_is_up(shop: Shop, store: str) -> None:
    async with private(shop.app, store=store) as sandbox:
        ticket = await shop.send.submit("a")
        await shop.app.run(
            lambda store: store.claim("mail", jobs_max=1, worker="gone", lease_seconds=30.0)
        )
        assert (await ticket.status()).state is JobState.RUNNING
        assert (await sandbox.drain()).ran == []
        sandbox.clock.advance(31)
        [ran] = (await sandbox.drain()).done
        assert ran.id == ticket.id


async def test_a_queue_that_no_job_is_declared_on_is_drained_too(shop: Shop) -> None:
    async with private(shop.app) as sandbox:

        @shop.app.job
        async def move() -> None:
            await shop.send.using(queue="found while it runs").submit("b")

        await shop.send.using(queue="elsewhere").submit("a")
        await move.submit()
        assert len((await sandbox.drain()).done) == 3


async def test_what_cannot_run_does_not_hold_a_drain_up(shop: Shop) -> None:
    async with private(shop.app) as sandbox:
        await shop.send.using(round=7).submit("gated")
        await shop.app.run(lambda store: store.pause("default", by="ann"))
        await shop.call_back.submit(1.0)
        assert (await sandbox.drain()).ran == []
        await shop.app.run(lambda store: store.resume("default"))
        assert len((await sandbox.drain()).done) == 1


async def test_a_job_that_submits_itself_for_ever_is_named(shop: Shop) -> None:
    async with private(shop.app) as sandbox:
        await shop.again.submit()
        with pytest.raises(DrainTimeout, match=r"'for ever' ran [\d,]+ times: does it submit"):
            await sandbox.drain(timeout=2)


async def test_a_handler_that_hangs_is_named(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inturn.testing.drain.ENDING_SECONDS", 0.1)
    async with private(shop.app) as sandbox:
        ticket = await shop.hang.submit()
        said = rf"within 2 s: 0 done.* Still running: 'hang' {ticket.id} \(attempt 1\)"
        with pytest.raises(DrainTimeout, match=said):
            await sandbox.drain(timeout=2)


@pytest.mark.parametrize("on_thread", [False, True])
async def test_what_was_only_claimed_is_not_said_to_run(
    shop: Shop, on_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.testing.drain.ENDING_SECONDS", 0.1)
    gate = threading.Event()
    claimed: list[str] = []

    async def claim() -> None:
        """Have a job claimed that nobody begins, as a worker does that has no slot for it yet."""
        claimed.append(str((await shop.send.submit("behind")).id))
        await shop.app.run(
            lambda store: store.claim("mail", jobs_max=1, worker="slow", lease_seconds=30.0)
        )

    @shop.app.job(kind="on a thread")
    def stuck_on_a_thread() -> None:
        shop.app.sync(claim())
        gate.wait(60)

    @shop.app.job(kind="on the loop")
    async def stuck() -> None:
        await claim()
        await asyncio.sleep(60)

    async with private(shop.app) as sandbox:
        ended = await shop.call_back.submit(1.0)
        hangs = await (stuck_on_a_thread if on_thread else stuck).submit()
        try:
            with pytest.raises(DrainTimeout) as raised:
                await sandbox.drain(timeout=2)
        finally:
            gate.set()
    assert re.search(
        rf"1 done.* Still running: '[\w ]+' {hangs.id} \(attempt 1\)\. "
        rf"Claimed, handler not begun: 'send' {claimed[0]} \(attempt 1\)\. Give drain",
        str(raised.value),
    )
    assert (len(raised.value.running), len(raised.value.waiting)) == (1, 1)
    assert str(ended.id) not in str(raised.value)


async def test_an_attempt_that_took_too_long_says_so(shop: Shop) -> None:
    async with private(shop.app) as sandbox:

        @shop.app.job(timeout=0.05, attempts=1)
        async def slow() -> None:
            await asyncio.sleep(3600)

        await slow.submit()
        with pytest.raises(TimeoutError, match=r"longer than 0.05 s"):
            await sandbox.drain()


async def test_a_transaction_of_a_handler_counts_as_done(shop: Shop, store: str) -> None:
    async with private(shop.app, store=store) as sandbox:

        @shop.app.job
        async def book(context: Context, n: int) -> None:
            async with context.transaction() as transaction:
                await transaction.enqueue([shop.send.call(f"{n}@b.c").new])

        await book.submit(1)
        drained = await sandbox.drain()
        assert [one.kind for one in drained.done] == ["book", "send"]
        sandbox.assert_submitted(shop.send, to="1@b.c")


async def test_handlers_see_what_the_test_replaced(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with private(shop.app) as sandbox:
        threads: list[Any] = []
        monkeypatch.setattr(shop.charge, "function", lambda *_, **__: threads.append(1))
        await shop.charge.submit("ann", amount=1)
        await sandbox.drain()
        assert threads == [1]


async def test_a_drain_waits_for_what_runs_while_there_is_nothing_to_claim(
    shop: Shop, store: str
) -> None:
    async with private(shop.app, store=store) as sandbox:

        @shop.app.job
        async def slow() -> None:
            await asyncio.sleep(0.3)
            await shop.send.submit("at last")

        await slow.submit()
        await sandbox.drain(slots=10)
    assert shop.ran == ["at last"]


async def test_a_handler_that_waits_for_another_job_needs_a_second_slot(shop: Shop) -> None:
    async with private(shop.app) as sandbox:

        @shop.app.job
        async def ask(to: str) -> int:
            return await (await shop.send.submit(to, copies=7)).result(timeout=60)

        ticket = await ask.submit("ann")
        await sandbox.drain(slots=2)
        assert await ticket.result(timeout=1) == 7


async def test_jobs_run_one_at_a_time_in_the_order_they_were_submitted(shop: Shop) -> None:
    async with private(shop.app) as sandbox:
        for number in range(30):
            await shop.call_back.submit(number)
        await sandbox.drain()
    assert shop.ran == [f"call {number}.0" for number in range(30)]


async def test_an_app_without_jobs_has_nothing_to_drain() -> None:
    async with private() as sandbox:
        assert (await sandbox.drain(advance="1m")).ran == []
        assert sandbox.clock.now() == START + timedelta(minutes=1)


async def test_a_drain_may_be_asked_for_from_another_loop(shop: Shop) -> None:
    async with private(shop.app) as sandbox:
        await shop.send.submit("a")
        done: list[int] = []
        thread = threading.Thread(target=lambda: done.append(len(sandbox.drain_sync().done)))
        thread.start()
        await asyncio.to_thread(thread.join)
        assert done == [1]


async def test_a_drain_needs_its_sandbox(shop: Shop) -> None:
    sandbox = private(shop.app)
    with pytest.raises(BadInput, match="enter the sandbox first"):
        await sandbox.drain()
    async with sandbox:
        await shop.send.submit("a")  # the app lives on this loop
        with pytest.raises(BadInput, match="await"):
            sandbox.drain_sync()


async def test_there_is_one_drain_at_a_time(shop: Shop, store: str) -> None:
    shop.fails = {"bad"}
    async with private(shop.app, store=store) as sandbox:
        await shop.send.submit("bad")
        ends = await asyncio.gather(sandbox.drain(), sandbox.drain(), return_exceptions=True)
        assert {type(one) for one in ends} == {ValueError, BadInput}
        assert "there is one drain at a time" in "".join(map(str, ends))
        assert len((await sandbox.drain(advance=10, raising=False)).retried) == 1


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_does_not_drain(shop: Shop, is_async: bool) -> None:
    async with private(shop.app) as sandbox:

        @shop.app.job(kind="drains", attempts=1)
        async def on_loop() -> None:
            await shop.send.submit("a")
            await sandbox.drain()

        @shop.app.job(kind="drains on a thread", attempts=1)
        def on_thread() -> None:
            shop.send.submit_sync("a")
            sandbox.drain_sync()

        await (on_loop if is_async else on_thread).submit()
        with pytest.raises(BadInput, match="there is one drain at a time") as raised:
            await sandbox.drain()
        assert "raised by job 'drains" in raised.value.__notes__[0]
        assert shop.ran == ["a"]


async def test_after_a_drain_that_was_cancelled_there_may_be_another(shop: Shop) -> None:
    async with private(shop.app) as sandbox:
        begun, may_begin = asyncio.Event(), asyncio.Event()

        @shop.app.on_start
        async def begin() -> None:
            begun.set()
            await may_begin.wait()

        await shop.send.submit("a")
        drain = asyncio.create_task(sandbox.drain())
        await begun.wait()
        drain.cancel()
        with pytest.raises(asyncio.CancelledError):
            await drain
        may_begin.set()
        assert len((await sandbox.drain()).done) == 1


async def test_a_job_for_a_process_of_its_own_runs_in_the_tests() -> None:
    async with private(process_jobs.app) as sandbox:
        ticket = await process_jobs.where.submit()
        await sandbox.drain()
        assert await ticket.result(timeout=10) == os.getpid()

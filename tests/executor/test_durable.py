"""An executor with a store behind it: the same verbs, and what it accepts is there to stay."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, assert_type

import pytest

import inturn
from inturn.executor import Completions, ExecutorSettings, LocalExecutor
from inturn.executor.executor import DurableOptions, LocalOptions
from inturn.model import events
from inturn.model.errors import (
    AttemptFailed,
    BadInput,
    EarlierFailure,
    EnqueueTimeout,
    ExecutorClosed,
    InvalidName,
    InvalidSetting,
    JobFailed,
    QueueFull,
    ShardFull,
    StoreUnavailable,
)
from inturn.model.job import JobState, NewJob
from inturn.model.lane import OnDead, QueueSettings
from inturn.worker import awaited
from inturn.worker.durable import _REFUSED, DurableExecutor
from inturn.worker.store_room import StoreRoom
from tests.executor.durable_shop import Shop, depth_of, running, until
from tests.executor.support import SECONDS_MAX, Seen
from tests.worker.conftest import take_for_good


async def test_given_an_app_an_executor_is_durable(shop: Shop) -> None:
    executor = inturn.Executor(app=shop.app)
    assert type(executor) is DurableExecutor
    assert isinstance(executor, inturn.Executor)
    assert type(inturn.Executor()) is inturn.Executor
    async with executor:
        ticket = await executor.submit("a", shop.write.call("a", 1))
        assert_type(executor, DurableExecutor)
        assert_type(ticket, inturn.Ticket[int])
        assert (await ticket.status()).job.key == "a"
        assert await ticket.result(timeout=SECONDS_MAX) == 1


async def test_jobs_of_one_key_run_in_order_and_stop_drains_them(shop: Shop) -> None:
    shop.fails = {7: 2, 20: 1}
    jobs = [(f"k{n % 5}", n) for n in range(100)]
    async with running(shop, slots=3) as executor:
        for key, n in jobs[:50]:
            await executor.submit(key, shop.write.call(key, n))
        await executor.submit_many([(key, shop.write.call(key, n)) for key, n in jobs[50:]])
    for key in (f"k{n}" for n in range(5)):
        wanted = [n for k, n in jobs if k == key for _ in range({7: 3, 20: 2}.get(n, 1))]
        assert shop.ran[key] == wanted


async def test_004_22_what_was_left_runs_after_a_restart_in_order(shop: Shop) -> None:
    executor = inturn.Executor(app=shop.app, slots=2)
    async with executor:
        await executor.submit("a", shop.wait.call())
        for n in range(5):
            await executor.submit("a", shop.write.call("a", n))
        stopping = asyncio.create_task(executor.stop(timeout=0.05))
        worker = executor._worker
        assert worker is not None
        await until(lambda: worker._hands.is_stopping)
        shop.gate.set()
        await stopping
        with pytest.raises(ExecutorClosed):
            await executor.submit("a", shop.write.call("a", 9))
    assert shop.ran["a"] == []
    async with running(shop) as again:
        await again.submit("a", shop.write.call("a", 5))
        await again.barrier("a")
        assert shop.ran["a"] == [0, 1, 2, 3, 4, 5]


async def test_a_barrier_waits_for_what_is_in_line_and_tells_of_failures(shop: Shop) -> None:
    shop.fails = {1: 3}
    async with running(shop) as executor:
        await executor.submit_many([("a", shop.write.call("a", n)) for n in range(3)])
        with pytest.raises(EarlierFailure, match="1 failed") as raised:
            await executor.barrier("a")
        assert (raised.value.failures, shop.ran["a"]) == (1, [0, 1, 1, 1, 2])
        await executor.barrier("a")
        await executor.barrier("nobody")
        await executor.submit("b", shop.wait.call())
        waiting = asyncio.create_task(executor.barrier("b"))
        await executor.submit("c", shop.write.call("c", 1))
        await executor.barrier("c")
        assert not waiting.done()
        shop.gate.set()
        await waiting


async def test_a_barrier_does_not_wait_for_what_ended_while_it_waited_for_another(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "STILL_SECONDS", 10.0)
    async with running(shop) as executor:
        await executor.submit("a", shop.wait.call())
        await executor.submit_many([("a", shop.write.call("a", n)) for n in range(30)])
        barrier = asyncio.create_task(executor.barrier("a"))
        await until(lambda: bool(executor._ends._waiting))
        shop.gate.set()
        await asyncio.wait_for(barrier, SECONDS_MAX)


async def test_a_barrier_covers_every_queue_of_the_app(shop: Shop) -> None:
    async with running(shop) as executor:
        await executor.submit("a", shop.write_slowly.call("a", 1))
        await executor.barrier("a")
        assert shop.ran["a"] == [1]


async def test_a_halted_key_fails_its_barrier_and_does_not_hold_up_a_stop(shop: Shop) -> None:
    shop.fails = {0: 3}
    halting = QueueSettings(on_dead=OnDead.HALT)
    await shop.app.run(lambda store: store.configure("default", halting))
    async with running(shop) as executor:
        tickets = await executor.submit_many([("a", shop.write.call("a", n)) for n in range(2)])
        with pytest.raises(EarlierFailure, match="0 failed"):
            await executor.barrier("a")
        with pytest.raises(BadInput, match="inturn lanes"):
            executor.resume("a")
        with pytest.raises(BadInput, match="inturn lanes"):
            executor.halted()
    assert (await tickets[1].status()).state is JobState.WAITING


async def test_what_waits_for_a_time_or_a_person_does_not_hold_up_a_stop(shop: Shop) -> None:
    await shop.app.run(lambda store: store.pause("threads", by="ann"))
    async with running(shop) as executor:
        late = await executor.submit("a", shop.write.using(delay=3600).call("a", 1))
        held = await executor.submit("a", shop.write_slowly.call("a", 1))
    assert (await late.status()).state is JobState.SCHEDULED
    assert (await held.status()).state is JobState.WAITING


async def test_a_job_whose_lease_was_lost_takes_no_slot(shop: Shop) -> None:
    async with running(shop, slots=2) as executor:
        ticket = await executor.submit("a", shop.wait.call())
        await until(lambda: (executor.keys_busy, executor.free_slots) == (1, 1))
        await take_for_good(shop.app, ticket)
        await until(lambda: (executor.keys_busy, executor.free_slots) == (0, 2))


async def test_what_waits_is_bounded_by_the_stores_depth(shop: Shop) -> None:
    async with running(shop, slots=1, queue_size=2, enqueue_timeout=0) as executor:
        await executor.submit("a", shop.wait.call())
        await until(lambda: executor.keys_busy == 1)
        for n in range(2):
            await executor.submit("a", shop.write.call("a", n), timeout=SECONDS_MAX)
        with pytest.raises(ShardFull, match=r"queue 'default' of the executor's store") as full:
            await executor.submit("b", shop.write.call("b", 2))
        assert (full.value.length, full.value.capacity, full.value.queue) == (2, 2, "default")
        with pytest.raises(EnqueueTimeout, match=r"none came free in 0.05 s"):
            await executor.submit("b", shop.write.call("b", 2), timeout="50ms")
        await executor.submit("b", shop.write_slowly.call("b", 9))  # another queue has room
        with pytest.raises(ShardFull, match="So many never fit"):
            await executor.submit_many([("b", shop.write.call("b", n)) for n in range(3)])
        assert executor.depths()[0] >= 2
        assert executor.free_slots == 0
        waiting = asyncio.create_task(
            executor.submit("b", shop.write.call("b", 3), timeout=SECONDS_MAX)
        )
        await asyncio.sleep(0.05)
        assert not waiting.done()
        with pytest.raises(ShardFull):  # who came first is first
            await executor.submit("c", shop.write.call("c", 4))
        shop.gate.set()
        await waiting
    # Of one key in two queues, neither waits for the other.
    assert (shop.ran["a"], sorted(shop.ran["b"]), shop.ran["c"]) == ([0, 1], [3, 9], [])


async def test_a_store_that_answers_late_is_not_full() -> None:
    asked = 0

    async def depths() -> dict[str, int]:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.05)
        return {"default": 0}

    room = StoreRoom(depths, capacity=3)
    now = asyncio.get_running_loop().time()
    await asyncio.gather(*(room.enter([NewJob(kind="a")], 0.0, ends_at=now) for _ in range(3)))
    assert asked == 1
    with pytest.raises(ShardFull):
        await room.enter([NewJob(kind="a")], 0.0, ends_at=now)
    room.entered([NewJob(kind="a")], accepted=False)
    await room.enter([NewJob(kind="a")], 0.0, ends_at=now)


async def test_a_bound_of_the_queues_own_holds_too(shop: Shop) -> None:
    await shop.app.run(lambda store: store.configure("default", QueueSettings(depth_max=1)))
    async with running(shop, slots=1) as executor:
        await executor.submit("a", shop.wait.call())
        await until(lambda: executor.keys_busy == 1)
        await executor.submit("a", shop.write.call("a", 1), timeout=SECONDS_MAX)
        with pytest.raises(QueueFull):
            await executor.submit("a", shop.write.call("a", 2), timeout=0.05)
        shop.gate.set()
        await executor.submit("a", shop.write.call("a", 3), timeout=SECONDS_MAX)
    assert shop.ran["a"] == [1, 3]


async def test_what_is_cancelled_does_not_run(shop: Shop) -> None:
    async with running(shop, slots=1, queue_size=2) as executor:
        await executor.submit("a", shop.wait.call())
        await until(lambda: executor.keys_busy == 1)
        ticket = await executor.submit("a", shop.write.call("a", 1))
        assert await ticket.cancel() is JobState.CANCELLED
        waits = asyncio.create_task(executor.run("a", shop.write.call("a", 2)))
        await until(lambda: depth_of(shop, 1))
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        detached = asyncio.create_task(executor.run("a", shop.write.call("a", 3), detached=True))
        await until(lambda: depth_of(shop, 1))
        detached.cancel()
        with pytest.raises(asyncio.CancelledError):
            await detached
        shop.gate.set()
    assert shop.ran["a"] == [3]


async def test_a_submitter_who_is_cancelled_takes_its_job_back(shop: Shop) -> None:
    async with running(shop, slots=1) as executor:
        await executor.submit("a", shop.wait.call())
        await until(lambda: executor.keys_busy == 1)
        accepted = []
        for n in range(20):
            submitting = asyncio.create_task(executor.submit("a", shop.write.call("a", n)))
            known = len(executor._ends.awaited)
            for _ in range(n):
                await asyncio.sleep(0)
            while n % 2 and len(executor._ends.awaited) == known:  # noqa: ASYNC110 - not on its way
                await asyncio.sleep(0)
            submitting.cancel()
            [end] = await asyncio.gather(submitting, return_exceptions=True)
            if not isinstance(end, asyncio.CancelledError):
                accepted.append(n)  # it had its ticket before it could be cancelled
        waiting = (await shop.app.run(lambda store: store.jobs(state=JobState.WAITING))).rows
        assert len(waiting) == len(accepted) < 20
        shop.gate.set()
    assert shop.ran["a"] == accepted


async def test_run_returns_what_the_handler_returned_or_raises(shop: Shop) -> None:
    shop.fails = {2: 3}
    async with running(shop) as executor:
        assert assert_type(await executor.run("a", shop.write.call("a", 1)), int) == 1
        with pytest.raises(JobFailed, match="2 failed"):
            await executor.run("a", shop.write.call("a", 2))


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
async def test_failures_are_reported_once_and_events_told(
    shop: Shop, error: type[BaseException]
) -> None:
    shop.fails = {1: 1, 2: 3}
    seen = Seen()

    def broken(_: object) -> None:
        raise error

    executor = inturn.Executor(
        app=shop.app, listeners=[broken, seen.listen], error_handler=seen.handle
    )
    async with executor:
        await executor.submit_many([("a", shop.write.call("a", n)) for n in range(3)])

        @shop.app.job(timeout=0.01, attempts=1)
        async def late() -> None:
            await asyncio.sleep(60)

    [failure] = seen.failures
    assert (failure.key, failure.attempts, str(failure.error)) == ("a", 3, "2 failed")
    counts = {kind: len(seen.of(kind)) for kind in (events.Opened, events.Accepted, events.Ran)}
    assert list(counts.values()) == [1, 3, 6]
    assert len(seen.of(events.Retried)) == 3
    assert len(seen.of(events.Failed)) == len(seen.of(events.Stopped)) == 1
    again = inturn.Executor(app=shop.app, listeners=[seen.listen], error_handler=broken)
    async with again:
        await again.submit("b", late.call())
    assert isinstance(seen.of(events.Failed)[1].error, AttemptFailed)
    assert len(seen.of(events.HandlerFailed)) == 1


async def test_threads_submit_too(shop: Shop) -> None:
    async with running(shop) as executor:

        def submit(key: str) -> None:
            for n in range(10):
                executor.submit_sync(key, shop.write_slowly.call(key, n), timeout=SECONDS_MAX)

        threads = [threading.Thread(target=submit, args=(key,)) for key in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
    assert shop.ran == {key: list(range(10)) for key in "abc"}


async def test_what_a_store_cannot_keep_is_refused_with_the_way_out(shop: Shop) -> None:
    other = inturn.App("sqlite:///:memory:")
    stranger = other.job(kind="stranger")(lambda: None)

    async def plain() -> None: ...

    executor: Any = inturn.Executor(app=shop.app)
    for job, said in (
        (plain, r"Declare a function, @app\.job"),
        (lambda: None, r"Declare a function, @app\.job"),
        (shop.write, r"write\.call"),
        (stranger.call(), "not of this executor's app"),
        (shop.write.using(key="b").call("b", 1), "has the key 'b' already"),
        (shop.write.using(queue="elsewhere").call("a", 1), "queue 'elsewhere' is none"),
    ):
        with pytest.raises(BadInput, match=said):
            await executor.submit("a", job)
    with pytest.raises(InvalidName):
        await executor.submit("", shop.wait.call())
    with pytest.raises(BadInput, match="detached"):
        await executor.submit("a", shop.wait.call(), detached=False)
    with pytest.raises(BadInput, match="completions"):
        await executor.submit_many([("a", shop.wait.call())], completions=Completions())
    assert await executor.submit_many([]) == []
    assert executor.shard_for("a") == 0
    await executor.stop()
    same = shop.write.using(key="a").call("a", 1)
    async with running(shop) as another:
        await another.submit("a", same)


async def test_a_duplicate_is_the_first_job(shop: Shop) -> None:
    async with running(shop) as executor:
        once = shop.write.using(dedupe="x")
        first = await executor.submit("a", once.call("a", 1))
        assert (await executor.submit("a", once.call("a", 1))).id == first.id
    assert shop.ran["a"] == [1]


async def test_a_duplicate_is_not_waited_for_besides_the_first_job(shop: Shop) -> None:
    seen = Seen()
    async with running(shop, listeners=[seen.listen]) as executor:
        for _ in range(3):
            await executor.submit("a", shop.wait.using(dedupe="x").call())
    [stopping] = seen.of(events.Stopping)
    assert stopping.waiting == 1


async def test_stop_is_idempotent_and_concurrent(shop: Shop) -> None:
    executor = inturn.Executor(app=shop.app)
    await executor.submit("a", shop.write.call("a", 1))
    await asyncio.gather(*(executor.stop() for _ in range(5)), executor.close())
    assert shop.ran["a"] == [1]
    never = inturn.Executor(app=shop.app)
    await never.stop()
    with pytest.raises(ExecutorClosed):
        await never.submit("a", shop.write.call("a", 1))


@pytest.mark.parametrize("name", _REFUSED)
def test_settings_of_jobs_and_queues_are_refused(name: str) -> None:
    app = inturn.App("sqlite:///:memory:")
    with pytest.raises(InvalidSetting, match=f"{name} means nothing to an executor with a store"):
        inturn.Executor(app=app, **{name: 1})  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="no setting 'sharps'"):
        inturn.Executor(app=app, sharps=1)  # type: ignore[call-overload]


def test_settings_come_from_the_environment() -> None:
    app = inturn.App("sqlite:///:memory:")
    environment = {"SQ_SLOTS": "3", "SQ_ENQUEUE_TIMEOUT": "2s"}
    settings = inturn.Executor.from_environment(environment, app=app, queue_size=9).settings
    assert (settings.slots, settings.enqueue_timeout, settings.queue_size) == (3, 2.0, 9)
    with pytest.raises(BadInput, match=r"is no app\. Give the inturn\.App"):
        inturn.Executor(app="sqlite:///:memory:")  # type: ignore[call-overload]
    with pytest.raises(BadInput, match="error_handler"):
        inturn.Executor(app=app, error_handler=7)  # type: ignore[call-overload]


def test_variables_that_mean_nothing_with_a_store_are_ignored_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = inturn.App("sqlite:///:memory:")
    environment = {"SQ_SHARDS": "8", "SQ_MAX_ATTEMPTS": "many", "SQ_SLOTS": "3"}
    executor = inturn.Executor.from_environment(environment, app=app)
    assert executor.settings.slots == 3
    [said] = caplog.messages
    assert said.startswith("ignoring SQ_SHARDS, SQ_MAX_ATTEMPTS: for an executor with a store")
    with pytest.raises(InvalidSetting, match="max_attempts means nothing"):
        inturn.Executor.from_environment({}, app=app, max_attempts=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("has_handler", [False, True], ids=["alone", "with a handler"])
async def test_a_job_that_failed_is_logged_once(
    shop: Shop, has_handler: bool, caplog: pytest.LogCaptureFixture
) -> None:
    shop.fails = {1: 3}
    handler = (lambda _: None) if has_handler else None
    with caplog.at_level("DEBUG", logger="inturn"):
        async with inturn.Executor(app=shop.app, error_handler=handler) as executor:
            await executor.submit("a", shop.write.call("a", 1))
    assert [one.levelname for one in caplog.records if "1 failed" in one.getMessage()] == [
        "WARNING",
        "WARNING",
        "ERROR",
    ]
    assert not [one for one in caplog.messages if "key 'a'" in one], "not once more by its key"


def test_every_setting_and_verb_has_its_meaning_with_a_store() -> None:
    local = set(LocalOptions.__annotations__)
    durable = set(DurableOptions.__annotations__)
    assert set(ExecutorSettings.__dataclass_fields__) < local
    assert local == (durable & local) | set(_REFUSED)
    verbs = {name for name in vars(LocalExecutor) if not name.startswith("_")}
    assert verbs <= set(vars(DurableExecutor))


async def test_a_store_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    app = inturn.App(f"sqlite:///{tmp_path / 'no' / 'folder' / 'work.db'}")
    executor = inturn.Executor(app=app)
    with pytest.raises(StoreUnavailable):
        await executor.__aenter__()

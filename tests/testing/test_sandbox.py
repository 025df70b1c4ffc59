"""A sandbox: the user's own app, on a private store, and afterwards as it was."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, assert_type

import pytest

import inturn.testing
from inturn.model.errors import BadInput, ResultLost
from inturn.policy.retry import Reject
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.testing import HandClock, private
from inturn.worker.worker import Worker
from tests.testing.conftest import START, Shop


async def test_afterwards_the_app_is_as_it_was(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path / 'work.db'}")

    @app.job
    async def note(n: int) -> None: ...

    async with app:
        real = await note.submit(1)
        before = dict(vars(app))
        async with private(app) as sandbox:
            assert (sandbox.app, app.url, app.clock) == (app, "sqlite:///:memory:", sandbox.clock)
            ticket = await note.submit(2)
            await sandbox.drain()
        assert vars(app) == before
        page = await app.run(lambda store: store.jobs())
        assert [row.job.id for row in page.rows] == [real.id]
        assert ticket.id != real.id


async def test_an_error_in_the_test_gives_the_app_back_too(shop: Shop) -> None:
    url = shop.app.url
    with pytest.raises(ZeroDivisionError):
        async with private(shop.app):
            await shop.send.submit(str(1 / 0))
    assert shop.app.url == url
    assert "run" not in vars(shop.app)


async def test_code_that_closes_the_app_does_not_lose_what_it_submitted(shop: Shop) -> None:
    async with private(shop.app) as sandbox:
        async with shop.app:
            await shop.send.submit("a")
        assert len((await sandbox.drain()).done) == 1


async def test_sandboxes_may_be_nested_and_are_apart(shop: Shop) -> None:
    async with private(shop.app) as outer:
        await shop.send.submit("outer")
        async with private(shop.app) as inner:
            await shop.send.submit("inner")
            await inner.drain()
            assert shop.ran == ["inner"]
        await outer.drain()
        assert shop.ran == ["inner", "outer"]


async def test_without_an_app_there_is_a_new_one() -> None:
    async with private() as sandbox:

        @sandbox.app.job
        async def double(n: int) -> int:
            return 2 * n

        ticket = await double.submit(21)
        await sandbox.drain()
        assert await ticket.result(timeout=1) == 42


async def test_a_worker_of_ones_own_works_there(shop: Shop) -> None:
    async with private(shop.app) as sandbox:
        worker = Worker(shop.app)
        running = asyncio.create_task(worker.run())
        ticket = await shop.send.submit("a", copies=3)
        assert await ticket.result(timeout=10) == 3
        worker.stop()
        await running
        sandbox.assert_submitted(shop.send, to="a")


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
async def test_a_store_that_holds_jobs_is_nobodys_private_one(shop: Shop, store: str) -> None:
    async with private(shop.app, store=store):
        await shop.send.submit("a")
    with pytest.raises(BadInput, match="holds jobs already"):
        async with private(shop.app, store=store):
            pass
    assert "run" not in vars(shop.app)


def test_a_full_store_is_refused_where_nothing_is_async(shop: Shop, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'full.db'}"
    with private(shop.app, store=url):
        shop.send.submit_sync("a")
    with pytest.raises(BadInput, match="holds jobs already"), private(shop.app, store=url):
        pass
    assert "run" not in vars(shop.app)


async def test_async_code_is_told_to_use_async_with(shop: Shop) -> None:
    with pytest.raises(BadInput, match="async with"), private(shop.app):
        pass


async def test_a_sandbox_is_entered_once_at_a_time(shop: Shop) -> None:
    sandbox = private(shop.app)
    async with sandbox:
        with pytest.raises(BadInput, match="in use already"):
            await sandbox.__aenter__()
        await shop.send.submit("a")
    assert "run" not in vars(shop.app)


def test_a_sandbox_that_is_entered_again_begins_anew(shop: Shop) -> None:
    sandbox = private(shop.app)
    with sandbox:
        shop.send.submit_sync("a")
        shop.fails.add("b")
        shop.send.submit_sync("b")
        sandbox.drain_sync(raising=False)
    assert len(sandbox.submitted()) == 2, "what the first time was about can still be asked"
    then = sandbox.clock.advance("1h")
    with sandbox:
        assert sandbox.submitted() == []
        sandbox.assert_not_submitted(shop.send)
        assert sandbox.clock.now() == then, "time does not go back"
        assert sandbox.drain_sync(advance="1h").ran == []
        shop.send.submit_sync("c")
        sandbox.assert_submitted(shop.send, "c")
        assert [one.kind for one in sandbox.drain_sync().done] == ["send"]
    assert shop.ran == ["a", "b", "c"]


async def test_a_sandbox_that_is_entered_again_in_async_code_begins_anew(shop: Shop) -> None:
    sandbox = private(shop.app)
    for to in ("a", "b"):
        async with sandbox:
            await shop.send.submit(to)
            assert [one.arguments["to"] for one in sandbox.submitted()] == [to]
            assert len((await sandbox.drain()).done) == 1


def test_a_sandbox_on_disk_is_not_entered_again_over_what_it_left(
    shop: Shop, tmp_path: Path
) -> None:
    sandbox = private(shop.app, store=f"sqlite:///{tmp_path / 'work.db'}")
    with sandbox:
        shop.send.submit_sync("a")
    with pytest.raises(BadInput, match="holds jobs already"), sandbox:
        pass


def test_one_loop_after_another_in_a_plain_test(shop: Shop, store: str) -> None:
    with private(shop.app, store=store) as sandbox:
        asyncio.run(shop.send.submit("a"))
        shop.send.submit_sync("b")
        assert len(sandbox.drain_sync().done) == 2


async def test_a_handler_is_called_alone(shop: Shop) -> None:
    shop.fails = {"bad"}
    async with private(shop.app) as sandbox:
        assert assert_type(await sandbox.run(shop.send, "a", copies=3), int) == 3
        with pytest.raises(ValueError, match="no bad"):
            await sandbox.run(shop.send, to="bad")
        assert await sandbox.run(shop.charge, "ann", amount=2) == "ANN"
        assert sandbox.submitted(shop.charge) == []
        sandbox.assert_submitted(shop.send, to="ann@b.c")
        with pytest.raises(BadInput, match="cannot be called like that"):
            await sandbox.run(shop.send, 5)  # type: ignore[arg-type]


def test_a_handler_is_called_alone_by_a_plain_test(shop: Shop) -> None:
    with private(shop.app) as sandbox:
        assert sandbox.run_sync(shop.send, "a", copies=3) == 3


async def test_what_cannot_be_kept_is_lost_as_it_is_to_a_ticket(shop: Shop) -> None:
    async with private(shop.app) as sandbox:

        @shop.app.job
        async def wrong() -> object:
            return object()

        with pytest.raises(ResultLost, match="result cannot be written as JSON") as rehearsed:
            await sandbox.run(wrong)
        ticket = await wrong.submit()
        assert len((await sandbox.drain()).done) == 1
        with pytest.raises(ResultLost) as kept:
            await ticket.result(timeout=1)
        assert rehearsed.value.reason == kept.value.reason

        @shop.app.job(keep_result=None)
        async def unkept() -> list[object]:
            return [wrong]

        assert await sandbox.run(unkept) == [wrong]


@pytest.mark.parametrize("keep_result", [60.0, None])
async def test_a_coroutine_that_nobody_awaits_is_rejected_as_by_a_worker(
    shop: Shop, keep_result: float | None
) -> None:
    async def send_all(to: str) -> None:
        shop.ran.append(to)

    async with private(shop.app) as sandbox:

        @shop.app.job(keep_result=keep_result)
        def behind(to: str) -> Any:
            return send_all(to)  # as a decorator does that is a plain def

        said = "send_all() is an `async def` that was called and not awaited"
        with pytest.raises(Reject) as rehearsed:
            await sandbox.run(behind, "a")
        assert said in str(rehearsed.value)
        await behind.submit("a")
        [dead] = (await sandbox.drain(raising=False)).dead
        assert said in str(dead.error)
        assert shop.ran == []


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_a_handler_raises_is_raised_in_the_test_whatever_it_is(
    shop: Shop, error: BaseException, is_async: bool
) -> None:
    with private(shop.app) as sandbox:

        @shop.app.job(kind="on the loop")
        async def on_loop() -> None:
            raise error

        @shop.app.job(kind="on a thread")
        def on_thread() -> None:
            raise error

        with pytest.raises(type(error)) as raised:
            sandbox.run_sync(on_loop if is_async else on_thread)
        assert raised.value is error
        assert sandbox.run_sync(shop.send, "a", copies=3) == 3


async def test_what_a_generator_raises_at_its_end_does_not_hold_up_a_test(shop: Shop) -> None:
    async with private(shop.app) as sandbox:

        @shop.app.job
        def first() -> None:
            next(iter([]))

        async with asyncio.timeout(60):
            with pytest.raises(RuntimeError, match="StopIteration"):
                await sandbox.run(first)


async def test_a_test_need_not_wait_for_a_handler(shop: Shop) -> None:
    async with private(shop.app) as sandbox:
        begun = asyncio.Event()

        @shop.app.job
        async def linger() -> None:
            begun.set()
            await asyncio.Event().wait()

        running = asyncio.create_task(sandbox.run(linger))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert running.cancelled()


async def test_a_context_can_be_made_for_a_call_by_hand(shop: Shop, store: str) -> None:
    async with private(shop.app, store=store) as sandbox:

        @shop.app.job(attempts=3, timeout=60)
        async def careful(context: Context, n: int) -> str:
            await context.heartbeat()
            async with context.transaction() as transaction:
                await transaction.enqueue([shop.send.call(f"{n}").new])
            return f"{context.attempt} {context.is_last_attempt}"

        assert await careful(sandbox.context(careful, attempt=3), n=1) == "3 True"
        assert await sandbox.run(careful, 2) == "1 False"
        assert [one.arguments for one in sandbox.submitted(shop.send)] == [{"to": "1"}, {"to": "2"}]
        context = sandbox.context(careful.using(key="k"))
        assert (context.job.key, context.job.kind) == ("k", "careful")
        assert context.deadline is not None
        with pytest.raises(BadInput, match="attempt"):
            sandbox.context(careful, attempt=4)


def test_a_clock_is_moved_by_seconds_words_and_times() -> None:
    clock = HandClock()
    assert clock.now() == START
    clock.advance(30)
    clock.advance("1m30s")
    assert (clock.now() - START).total_seconds() == 120
    assert clock.move_to(START.replace(hour=5)) == START.replace(hour=5) == clock.now()
    with pytest.raises(BadInput, match="no length of time"):
        clock.advance("soon")
    with pytest.raises(BadInput, match="no zone"):
        clock.move_to(START.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (-1, "time to pass is -1 s. Time does not go back: start earlier"),
        (float("nan"), "must be a finite number, not nan"),
        (float("inf"), "must be a finite number, not inf"),
        (1e15, "no calendar has a day"),
        pytest.param(10**400, "no calendar has a day", id="too large for a float"),
        ("soon", "no length of time"),
        (timedelta(minutes=5), "must be a finite number"),
        (None, "must be a finite number, not None"),
    ],
)
async def test_time_that_cannot_pass_is_refused_with_a_sentence(
    shop: Shop, by: Any, said: str
) -> None:
    async with private(shop.app) as sandbox:
        with pytest.raises(BadInput, match=said):
            sandbox.clock.advance(by)
        with pytest.raises(BadInput, match=said):
            await sandbox.drain(advance=by)
        assert sandbox.clock.now() == START


def test_a_clock_is_not_moved_back() -> None:
    clock = HandClock()
    assert clock.move_to(START) == START
    with pytest.raises(BadInput, match=r"before 2026-01-01 .* Time does not go back: start ear"):
        clock.move_to(START - timedelta(microseconds=1))
    east = timezone(timedelta(hours=2))
    with pytest.raises(BadInput, match="does not go back"):
        clock.move_to(datetime(2026, 1, 1, 1, tzinfo=east))
    wrong: Any = "2026-01-02"
    with pytest.raises(BadInput, match="'2026-01-02' is no time"):
        clock.move_to(wrong)
    assert clock.now() == START
    assert HandClock(START - timedelta(days=1)).now() < START


def test_what_users_need_is_found_at_the_top() -> None:
    for name in inturn.testing.__all__:
        assert getattr(inturn.testing, name).__name__ == name
        assert name in dir(inturn.testing)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        inturn.testing.nothing  # noqa: B018

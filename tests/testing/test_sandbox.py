"""A sandbox: what is submitted stays there, runs when the test says so, in time that it moves."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import inturn
from inturn.model.errors import AttemptFailed, BadInput
from inturn.testing import DrainTimeout, HandClock, private
from tests.testing.conftest import Shop


async def test_jobs_run_when_the_test_says_so_and_nowhere_else(shop: Shop, store: str) -> None:
    async with private(shop.app, store=store) as sandbox:
        ticket = await shop.charge.submit("ann", 30)
        assert shop.ran == []
        drained = await sandbox.drain()
        assert shop.ran == [("ann", 30, 1), "ann@b.c"]
        assert [(one.kind, one.end, one.attempt) for one in drained.ran] == [
            ("charge", "done", 1),
            ("send", "done", 1),
        ]
        assert await ticket.result(timeout=5) == "ANN"
        assert (await sandbox.drain()).ran == []
    with pytest.raises(inturn.StoreError):
        await shop.send.submit("after", 1)


def test_a_test_that_is_not_async_does_the_same(shop: Shop, store: str) -> None:
    with private(shop.app, store=store) as sandbox:
        shop.charge.using(key="ann").submit_sync("ann", 30)
        assert len(sandbox.drain_sync().done) == 2
        assert sandbox.app.sync(shop.send.submit("bob")) is not None
        assert len(sandbox.drain_sync().done) == 1


def test_without_an_app_there_is_a_new_one() -> None:
    with private() as sandbox:
        ran = []

        @sandbox.app.job
        def note(text: str) -> None:
            ran.append(text)

        note.submit_sync("a")
        sandbox.drain_sync()
    assert ran == ["a"]


# What was submitted


def test_what_was_submitted_is_found_by_job_arguments_and_options(shop: Shop) -> None:
    with private(shop.app) as sandbox:
        shop.send.using(key="c-7", delay=30).submit_sync("ann", copies=2)
        shop.send.submit_sync("bob")
        first, second = sandbox.submitted()
        assert (first.kind, first.key) == ("send", "c-7")
        assert first.arguments == {"to": "ann", "copies": 2}
        assert sandbox.submitted(shop.send, "bob") == [second]
        assert sandbox.assert_submitted(shop.send) == first
        assert sandbox.assert_submitted(shop.send, to="bob") == second
        assert sandbox.assert_submitted(shop.send.using(key="c-7", delay=30), "ann") == first
        assert sandbox.submitted(shop.send.using(key=None)) == [second]
        assert sandbox.submitted(shop.send.using(key="c-8")) == []
        sandbox.assert_not_submitted(shop.charge)
        sandbox.assert_not_submitted(shop.send, "eve")
        with pytest.raises(AssertionError, match=r"submitted 1 times, first: send\(to='bob'"):
            sandbox.assert_not_submitted(shop.send, "bob")
        with pytest.raises(AssertionError, match=r"(?s)send\(.*'eve'.*was not .*to='ann'.*'bob'"):
            sandbox.assert_submitted(shop.send, "eve")


def test_a_duplicate_is_submitted_once(shop: Shop) -> None:
    with private(shop.app) as sandbox:
        for _ in range(2):
            shop.send.using(dedupe="d").submit_sync("ann")
        assert len(sandbox.submitted(shop.send.using(dedupe="d"))) == 1


async def test_what_a_handlers_transaction_submits_counts_when_it_commits(shop: Shop) -> None:
    @shop.app.job
    async def order(context: inturn.Context) -> None:
        async with context.transaction() as transaction:
            await transaction.submit(shop.send.call("ann"))

    async with private(shop.app) as sandbox:
        await order.submit()
        drained = await sandbox.drain()
        sandbox.assert_submitted(shop.send, "ann")
    assert [one.kind for one in drained.done] == ["order", "send"]


# Failures and time


def test_a_handlers_error_is_raised_when_all_has_run(shop: Shop) -> None:
    shop.fails = {"ann"}
    with private(shop.app) as sandbox:
        shop.charge.submit_sync("ann", 1)
        shop.send.submit_sync("bob")
        with pytest.raises(inturn.Reject, match="ann is closed") as raised:
            sandbox.drain_sync()
        assert "raised by job 'charge'" in raised.value.__notes__[0]
    assert shop.ran == [("ann", 1, 1), "bob"] or shop.ran == ["bob", ("ann", 1, 1)]


def test_retries_come_when_time_passes(shop: Shop, store: str) -> None:
    shop.fails = {"ann"}
    with private(shop.app, store=store) as sandbox:
        shop.send.submit_sync("ann")
        first = sandbox.drain_sync(raising=False)
        assert [one.end for one in first.ran] == ["retried"]
        assert isinstance(first.ran[0].error, ValueError)
        assert sandbox.drain_sync(raising=False).ran == []
        rest = sandbox.drain_sync(advance="1h", raising=False)
        assert [(one.attempt, one.end) for one in rest.ran] == [(2, "retried"), (3, "dead")]
        assert (rest.retried, rest.dead) == (rest.ran[:1], rest.ran[1:])
    assert sandbox.clock.now() == datetime(2026, 1, 1, 1, tzinfo=UTC)


def test_a_delay_is_over_when_the_clock_has_moved(shop: Shop) -> None:
    with private(shop.app) as sandbox:
        shop.send.using(delay=60).submit_sync("ann")
        assert sandbox.drain_sync(advance=59).ran == []
        sandbox.clock.advance("1s")
        assert len(sandbox.drain_sync().done) == 1


def test_a_timeout_is_an_attempt_that_failed(shop: Shop) -> None:
    @shop.app.job(timeout=0.05, attempts=1)
    async def slow() -> None:
        import asyncio

        await asyncio.sleep(60)

    with private(shop.app) as sandbox:
        slow.submit_sync()
        [ran] = sandbox.drain_sync(raising=False).dead
    assert isinstance(ran.error, AttemptFailed | TimeoutError)


def test_a_handler_that_hangs_is_named(shop: Shop) -> None:
    with private(shop.app) as sandbox:
        shop.hang.submit_sync()
        with pytest.raises(DrainTimeout, match=r"did not end within 1 s: .*still running: 'hang'"):
            sandbox.drain_sync(timeout=1)


async def test_handlers_that_wait_for_each_other_need_more_concurrency(shop: Shop) -> None:
    @shop.app.job
    async def both() -> int:
        return await (await shop.send.submit("ann", copies=3)).result(timeout=5)

    async with private(shop.app) as sandbox:
        ticket = await both.submit()
        await sandbox.drain(concurrency=2)
        assert await ticket.result(timeout=5) == 3


def test_the_clock_goes_forward_only() -> None:
    clock = HandClock()
    assert clock.advance("1m30s").second == 30
    with pytest.raises(BadInput, match="does not go back"):
        clock.move_to(datetime(2025, 1, 1, tzinfo=UTC))


def test_a_sandbox_is_entered_once_and_drained_while_it_is(shop: Shop) -> None:
    sandbox = private(shop.app)
    with pytest.raises(BadInput, match="enter the sandbox first"):
        sandbox.app.sync(sandbox.drain())
    with sandbox, pytest.raises(BadInput, match="in use already"):
        sandbox.__enter__()


async def test_in_async_code_the_plain_with_is_refused_and_leaves_the_app_as_it_was(
    shop: Shop,
) -> None:
    before = shop.app.connections
    with pytest.raises(BadInput, match=r"in async code write `async with private\(app\)`"):
        private(shop.app).__enter__()
    assert shop.app.connections is before

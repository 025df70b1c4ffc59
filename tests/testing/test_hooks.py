"""The hooks of an app in a sandbox: once for each drain, around each handler."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextvars import ContextVar

import pytest

from inturn.model.errors import BadInput, HookFailed
from inturn.queue.context import Context
from inturn.testing import DrainTimeout, private
from tests.testing.conftest import START, Shop

session: ContextVar[str] = ContextVar("session")


@pytest.fixture
def told(shop: Shop) -> list[str]:
    """What hooks and handlers have said, in order."""
    told: list[str] = []
    shop.app.on_start(lambda: told.append("start"))
    shop.app.on_stop(lambda: told.append("stop"))
    return told


@pytest.fixture
def surrounded(shop: Shop, told: list[str]) -> Shop:
    """Whose attempts have a session around them, which a handler that fails rolls back."""

    @shop.app.around
    async def outer(context: Context) -> AsyncIterator[None]:
        told.append(f"{context.job.kind} begins, attempt {context.attempt}")
        yield
        told.append("ends")

    @shop.app.around
    async def inner(context: Context) -> AsyncIterator[None]:
        session.set(f"session of {context.job.kind}")
        try:
            yield
        except ValueError as error:
            told.append(f"rolled back: {error}")
            raise

    return shop


async def test_a_handler_called_alone_has_around_it_what_a_worker_puts_there(
    surrounded: Shop, told: list[str]
) -> None:
    @surrounded.app.job
    async def ask() -> str:
        told.append("runs")
        return session.get()

    async with private(surrounded.app) as sandbox:
        assert await sandbox.run(ask) == "session of ask"
        assert told == ["ask begins, attempt 1", "runs", "ends"]
        ticket = await ask.submit()
        await sandbox.drain()
        assert await ticket.result(timeout=1) == "session of ask"
        assert told[3:] == ["start", *told[:3], "stop"]


def test_so_has_one_that_is_not_async(surrounded: Shop, told: list[str]) -> None:
    @surrounded.app.job
    def ask(context: Context, name: str) -> str:
        told.append("runs")
        return f"{name} {session.get()} {context.attempt}"

    with private(surrounded.app) as sandbox:
        assert sandbox.run_sync(ask, "ann") == "ann session of ask 1"
    assert told == ["ask begins, attempt 1", "runs", "ends"]


async def test_what_it_raises_comes_out_of_the_yield(surrounded: Shop, told: list[str]) -> None:
    surrounded.fails = {"bad"}
    async with private(surrounded.app) as sandbox:
        with pytest.raises(ValueError, match="no bad"):
            await sandbox.run(surrounded.send, "bad")
    assert told == ["send begins, attempt 1", "rolled back: no bad"]


async def test_arguments_that_do_not_fit_are_found_before_anything_is_put_around(
    surrounded: Shop, told: list[str]
) -> None:
    async with private(surrounded.app) as sandbox:
        with pytest.raises(BadInput, match="cannot be called like that"):
            await sandbox.run(surrounded.send, 5)  # type: ignore[arg-type]
    assert told == []


async def test_a_drain_starts_and_stops_once_however_long_it_lasts(
    shop: Shop, told: list[str]
) -> None:
    @shop.app.job
    async def tick(left: int) -> None:
        told.append(f"{(sandbox.clock.now() - START).total_seconds():g}")
        if left:
            await tick.using(delay=600, queue=f"new {left}").submit(left - 1)

    async with private(shop.app) as sandbox:
        await tick.submit(2)
        await sandbox.drain(advance="1h")
        assert told == ["start", "0", "600", "1200", "stop"]
        await sandbox.drain()
        assert told[5:] == ["start", "stop"]  # as a worker that finds nothing


async def test_a_handler_has_what_a_start_hook_set_and_the_test_has_not(shop: Shop) -> None:
    @shop.app.on_start
    async def begin() -> None:
        session.set("of the worker")

    @shop.app.job
    async def ask() -> str:
        return session.get("none")

    async with private(shop.app) as sandbox:
        now = await ask.submit()
        later = await ask.using(delay=60).submit()
        await sandbox.drain(advance="1m")
        assert await now.result(timeout=1) == await later.result(timeout=1) == "of the worker"
        assert session.get("none") == "none"


async def test_a_start_hook_that_fails_ends_the_drain_with_its_error(
    shop: Shop, told: list[str]
) -> None:
    @shop.app.on_start
    async def broken() -> None:
        raise ValueError("no database")

    async with private(shop.app) as sandbox:
        await shop.send.submit("a")
        with pytest.raises(HookFailed, match=r"'broken'.*no database"):
            await sandbox.drain()
    assert (told, shop.ran) == (["start", "stop"], [])


async def test_a_stop_hook_that_fails_ends_the_drain_with_its_error(shop: Shop) -> None:
    @shop.app.on_stop
    async def broken() -> None:
        raise ValueError("cannot close")

    async with private(shop.app) as sandbox:
        await shop.send.submit("a")
        with pytest.raises(HookFailed, match=r"'broken'.*cannot close") as failed:
            await sandbox.drain()
    assert isinstance(failed.value.__cause__, ValueError)
    assert shop.ran == ["a"]


async def test_a_drain_that_takes_too_long_stops_too(
    shop: Shop, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.testing.drain.ENDING_SECONDS", 0.5)

    @shop.app.on_stop
    async def end() -> None:
        for _ in range(3):
            await asyncio.sleep(0)  # there is time for it, though time is up
        told.append("ended")

    async with private(shop.app) as sandbox:
        await shop.hang.submit()
        with pytest.raises(DrainTimeout, match="'hang'"):
            await sandbox.drain(timeout=0.5)
    assert told == ["start", "ended", "stop"]


async def test_a_hook_that_hangs_does_not_hold_up_a_test_for_ever(
    shop: Shop, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.testing.drain.ENDING_SECONDS", 0.1)
    async with private(shop.app) as sandbox:
        begun, ended = asyncio.Event(), asyncio.Event()

        @shop.app.on_start
        async def begin() -> None:
            await begun.wait()

        with pytest.raises(DrainTimeout, match="running: a hook of on_start"):
            await sandbox.drain(timeout=0.2)
        assert told == ["start", "stop"]
        begun.set()

        @shop.app.on_stop
        async def end() -> None:
            await ended.wait()

        with pytest.raises(DrainTimeout, match="running: a hook of on_stop"):
            await sandbox.drain(timeout=0.2)


@pytest.mark.parametrize("moment", ["start", "stop"])
def test_a_hook_that_calls_sys_exit_is_named_by_the_drain(shop: Shop, moment: str) -> None:
    def leaves() -> None:
        sys.exit(3)

    getattr(shop.app, f"on_{moment}")(leaves)
    with private(shop.app) as sandbox:
        said = rf"the hook 'leaves', to be called when a worker {moment}s, failed: SystemExit: 3"
        with pytest.raises(HookFailed, match=said):
            sandbox.drain_sync()

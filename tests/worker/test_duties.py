"""Background duties: called again and again, by one worker at a time, whatever handlers do."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from inturn.model.errors import BadInput, StoreUnavailable
from inturn.queue.app import App
from inturn.queue.declared import Duty
from inturn.store.store import Store
from inturn.worker import background
from inturn.worker.background import DutyCalls
from inturn.worker.worker import Worker
from tests.worker.conftest import until, working


def copy_of(app: App) -> App:
    """Return the same app once more, as another process has it."""
    return App(app.url)


async def test_a_duty_is_called_again_and_again_while_handlers_block_the_loop(app: App) -> None:
    called: list[str] = []

    async def look(store: Store, held_until: datetime) -> None:
        called.extend(status.name for status in await store.queues())
        assert held_until > datetime.now(UTC)

    @app.job
    async def blocks() -> None:
        before, give_up_at = len(called), time.monotonic() + 30
        while len(called) < before + 3 and time.monotonic() < give_up_at:
            time.sleep(0.01)  # noqa: ASYNC251
        assert len(called) >= before + 3

    app.duty("look", look, every_seconds=0.02)
    ticket = await blocks.submit()
    async with working(app):
        await ticket.result(timeout=60)


async def test_a_duty_says_when_it_wants_to_be_called_again(app: App) -> None:
    called: list[int] = []

    async def work_off(_store: Store, _held_until: datetime) -> float | None:
        called.append(1)
        return 0 if len(called) < 10 else None

    app.duty("work off", work_off, every_seconds=3_600)
    async with working(app):
        await until(lambda: len(called) == 10)
        await asyncio.sleep(0.1)
    assert len(called) == 10


async def test_one_of_two_workers_does_a_duty_and_the_other_when_that_one_has_left(
    app: App,
) -> None:
    called: list[str] = []
    apps = [app, copy_of(app)]

    def declare(one: App, name: str) -> None:
        async def call(_store: Store, _held_until: datetime) -> None:
            called.append(name)

        one.duty("alone", call, every_seconds=0.01)
        one.duty("each", call, every_seconds=0.01, alone=False)
        one.job(kind="work")(lambda: None)

    for name, one in zip("ab", apps, strict=True):
        declare(one, name)

    async def duties() -> dict[str, tuple[str, ...]]:
        """Return what each worker holds of this app's; on PostgreSQL groups have one, too."""
        workers = await app.run(lambda store: store.workers())
        return {one.id: tuple({*one.duties} & {"alone"}) for one in workers}

    options: dict[str, Any] = {"lease_seconds": 60.0, "sweep_seconds": 0.1}
    async with working(apps[1], name="b", **options):
        async with working(app, name="a", **options):
            await until(lambda: set(called) == {"a", "b"})

            async def holders() -> list[str]:
                return [name for name, held in (await duties()).items() if held]

            await until(holders)
            [holder] = await holders()
        if holder == "a":
            assert await duties() == {"b": ()}, "it asks again after a third of a lease"
    await apps[1].close()


async def test_a_duty_is_taken_over_when_its_holder_has_died(app: App) -> None:
    called: list[int] = []

    async def call(_store: Store, _held_until: datetime) -> None:
        called.append(1)

    app.duty("sweep", call, every_seconds=0.01)
    await app.run(lambda store: store.hold("sweep", worker="dead", seconds=1.0))
    began = time.monotonic()
    async with working(app, lease_seconds=0.6):
        await until(lambda: called)
    assert time.monotonic() - began > 0.5


async def test_a_duty_that_fails_is_named_once_and_called_again(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[int] = []

    async def fail(_store: Store, _held_until: datetime) -> None:
        called.append(1)
        raise OSError("no route")

    app.duty("sweep", fail, every_seconds=0.01)
    async with working(app):
        await until(lambda: len(called) > 2)
    assert caplog.text.count("duty 'sweep' failed, and is called again") == 1
    assert "OSError: no route" in caplog.text


async def test_no_call_begins_when_its_hold_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an outage that outlasts the lease."""
    now, called = [0.0], list[float]()
    app, store = App("sqlite:///:memory:"), App("sqlite:///:memory:").spare_store()

    async def call(_store: Store, _held_until: datetime) -> None:
        called.append(now[0])

    async def hold(name: str, *, worker: str, seconds: float) -> bool:
        if now[0]:
            now[0] += 60.0
            raise StoreUnavailable("no answer")
        return True

    monkeypatch.setattr(background, "lease_now", lambda: now[0])
    monkeypatch.setattr(store, "hold", hold)
    duty = Duty(name="sweep", function=call, every_seconds=1.0, alone=True)
    calls = DutyCalls(Worker(app, lease_seconds=30.0), store, duty)
    for at in (0.0, 11.0):
        now[0] = at
        await calls.step()
    assert called == [0.0]


async def test_a_call_that_outlasts_its_hold_is_cancelled(app: App) -> None:
    ended: list[str] = []

    async def lasts(_store: Store, _held_until: datetime) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    app.duty("sweep", lasts, every_seconds=0.01)
    async with working(app, lease_seconds=0.5):
        await until(lambda: ended)


def test_two_duties_of_one_name_are_refused() -> None:
    app = App("sqlite:///:memory:")

    async def call(_store: Store, _held_until: datetime) -> None: ...

    app.duty("sweep", call, every_seconds=1)
    with pytest.raises(BadInput, match="two duties 'sweep'"):
        app.duty("sweep", call, every_seconds=1)
    with pytest.raises(BadInput, match="every_seconds"):
        app.duty("count", call, every_seconds=0)

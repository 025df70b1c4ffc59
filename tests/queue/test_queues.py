"""Queues in code: what an app says of them reaches the store when the app is first used."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from inturn import App
from inturn.model.errors import BadInput
from inturn.model.lane import OnDead, QueueSettings, Replay, SuspectsRule
from inturn.store.schema import Schema
from inturn.worker.worker import Worker
from tests.worker.conftest import until, working


def declared(url: str) -> App:
    app = App(url)
    app.queue("orders", on_dead="halt", replay="none", suspects="again", keep_done="7d", aging=5)
    app.limit("lightspeed", rate=50, per="5m", running=2)

    @app.job(queue="lightspeed")
    async def push(item: int) -> None: ...

    return app


SETTINGS = {
    "orders": QueueSettings(
        on_dead=OnDead.HALT,
        replay=Replay.NONE,
        suspects=SuspectsRule.AGAIN,
        keep_done_seconds=7 * 86_400.0,
        aging_seconds=5.0,
    ),
    "lightspeed": QueueSettings(running_max=2, rate=50, rate_seconds=300.0),
}


async def settings(app: App) -> dict[str, QueueSettings]:
    return await app.run(lambda store: store.settings())


async def test_what_is_declared_is_written_when_the_app_first_submits(url: str) -> None:
    async with declared(url) as app:
        await app.jobs["push"].submit(item=1)
        assert await settings(app) == SETTINGS


async def test_it_is_written_when_a_worker_starts(url: str) -> None:
    async with declared(url) as app:
        await Worker(app).run(until_empty=True)
        assert await settings(app) == SETTINGS


async def test_what_is_declared_later_is_written_before_the_app_is_used_again(url: str) -> None:
    """As by a module that is imported when it is needed."""
    async with App(url) as app:

        @app.job
        async def push(item: int) -> None: ...

        await push.submit(1)
        app.queue("orders", running_max=2, local=True)
        await push.using(queue="orders").submit(1)
        assert (await settings(app))["orders"] == QueueSettings(running_max=2, local=True)
        app.queue("orders", running_max=3)
        async with app.transaction() as t:
            await t.submit(push.using(queue="orders").call(2))
        assert (await settings(app))["orders"] == QueueSettings(running_max=3, local=True)


async def test_tables_that_are_named_later_are_made_before_the_app_is_used_again(
    tmp_path: Path,
) -> None:
    async with App(f"sqlite:///{tmp_path}/work.db") as app:
        assert await settings(app) == {}
        app.schema(Schema("shop", "tests.shop"))
        found = await app.run(lambda store: store.versions())
    assert set(found) == {"engine", "shop"}


async def test_a_worker_writes_again_what_code_says_of_a_queue_that_was_dropped(url: str) -> None:
    async with declared(url) as app, working(app, sweep_seconds=0.05):
        store = await app.lend()
        by_hand = QueueSettings(on_dead=OnDead.HALT)
        await store.configure("orders", by_hand)
        await store.drop_queue("lightspeed")

        async def is_back() -> bool:
            return (await store.settings()).get("lightspeed") == SETTINGS["lightspeed"]

        await until(is_back)
        app.queue("late", depth_max=7)  # and what is declared while it runs

        async def is_written() -> bool:
            return (await other.settings()).get("late") == QueueSettings(depth_max=7)

        other = app.spare_store()
        try:
            await other.open()
            await until(is_written)
            assert (await other.settings())["orders"] == by_hand
        finally:
            await other.close()


async def test_a_limit_that_is_not_named_stays_as_it_is(tmp_path: Path) -> None:
    async with App(f"sqlite:///{tmp_path}/work.db") as app:
        store = await app.lend()
        await store.configure("orders", QueueSettings(rate=20, rate_seconds=300.0))
        app.queue("mail", running_max=4)
        app.limit("orders", running=2)
        app.limit("mail", rate=5, per=1)
        assert await settings(app) == {
            "orders": QueueSettings(rate=20, rate_seconds=300.0, running_max=2),
            "mail": QueueSettings(rate=5, rate_seconds=1.0, running_max=4),
        }
        app.limit("orders", rate=None)
        app.limit("mail", running=None)
        assert await settings(app) == {
            "orders": QueueSettings(running_max=2),
            "mail": QueueSettings(rate=5, rate_seconds=1.0),
        }


async def test_many_apps_may_start_at_once(url: str) -> None:
    apps = [declared(url) for _ in range(5)]
    await asyncio.gather(*(app.open() for app in apps))
    assert await settings(apps[0]) == SETTINGS
    for app in apps:
        await app.close()


def test_what_a_queue_cannot_be_is_refused_where_it_is_declared() -> None:
    app = App("sqlite:///:memory:")
    with pytest.raises(BadInput, match="so many jobs in a time"):
        app.queue("orders", rate=50)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="no length of time"):
        app.queue("orders", rate=(50, "often"))
    with pytest.raises(BadInput, match=r"no setting 'max_running'.*rate, .*running_max"):
        app.queue("orders", max_running=2)  # type: ignore[call-arg]
    with pytest.raises(BadInput, match="so many jobs in a time"):
        app.limit("orders", rate=50)
    with pytest.raises(BadInput, match="so many jobs in a time"):
        app.limit("orders", per="5m")
    with pytest.raises(BadInput, match="running_max is 0"):
        app.limit("orders", running=0)
    with pytest.raises(BadInput, match="on_dead"):
        app.queue("orders", on_dead="explode")  # type: ignore[arg-type]

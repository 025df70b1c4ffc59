"""Errors that fail when they are looked at end their own job, and neither worker nor executor."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import inturn
from inturn.model import events
from inturn.model.errors import BadInput, JobFailed, ShardFull
from tests.executor.durable_shop import Shop, running, until
from tests.executor.support import SECONDS_MAX, Seen
from tests.executor.test_hostile import HOSTILE


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
@pytest.mark.parametrize("kind", HOSTILE)
async def test_an_error_that_fails_when_it_is_looked_at_ends_its_job_only(
    kind: str, is_async: bool
) -> None:
    app = inturn.App("sqlite:///:memory:")

    async def on_loop() -> None:
        raise HOSTILE[kind]()

    def on_thread() -> None:
        raise HOSTILE[kind]()

    work = app.job(attempts=1, kind="work")(on_loop if is_async else on_thread)

    @app.job
    async def well() -> int:
        return 1

    told: list[type] = []
    async with asyncio.timeout(SECONDS_MAX):
        async with inturn.Executor(
            app=app, slots=1, listeners=[lambda event: told.append(type(event))]
        ) as executor:
            with pytest.raises(JobFailed, match="is dead"):
                await executor.run("a", work.call())
            assert await executor.run("a", well.call()) == 1
    assert told.count(events.Failed) == 1
    await app.close()


async def test_each_job_that_finds_no_room_is_told_of(shop: Shop) -> None:
    seen = Seen()
    options: dict[str, Any] = {"slots": 1, "queue_size": 1, "enqueue_timeout": 0}
    async with running(shop, listeners=[seen.listen], **options) as executor:
        await executor.submit("a", shop.wait.call())
        await until(lambda: executor.keys_busy == 1)
        with pytest.raises(ShardFull):
            await executor.submit_many([(key, shop.write.call(key, 1)) for key in "bcd"])
        assert [one.key for one in seen.of(events.Refused)] == ["b", "c", "d"]


async def test_what_cannot_listen_and_what_is_no_pair_is_refused(shop: Shop) -> None:
    for listeners in (print, [5], None):
        with pytest.raises(BadInput, match="listener"):
            inturn.Executor(app=shop.app, listeners=listeners)  # type: ignore[arg-type]
    async with running(shop) as executor:
        with pytest.raises(BadInput, match="takes pairs of a key and a job, not 7"):
            await executor.submit_many([7])  # type: ignore[arg-type]

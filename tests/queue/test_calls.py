"""A call is one job, once, and knows whose: another app's workers would not know it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from inturn import App, Call, Executor
from inturn.model.errors import BadInput
from inturn.testing import private

MEMORY = "sqlite:///:memory:"


def answer(n: int) -> int:
    return n


def calls(app: App) -> list[Call[int]]:
    """Return calls of a job of kind ``answer``, through ``using`` and without."""
    job = app.job(answer)
    return [job.call(1), job.using(key="k").call(2)]


@pytest.mark.parametrize("urls", [(MEMORY, MEMORY), ("sqlite:///{}/a.db", "sqlite:///{}/b.db")])
async def test_a_call_of_an_app_on_another_store_is_refused_and_so_are_those_with_it(
    urls: tuple[str, str], tmp_path: Path
) -> None:
    one, two = (url.format(tmp_path) for url in urls)
    async with App(one) as app, App(two) as other:
        own, foreign = calls(app), calls(other)
        for call in foreign:
            with pytest.raises(
                BadInput,
                match=r"^job 'answer' is one of another app, on another store, .* Submit it",
            ):
                await app.submit_many([*own, call])
        assert (await app.run(lambda store: store.jobs())).rows == ()
        assert len(await app.submit_many(own)) == len(await other.submit_many(foreign)) == 2


async def test_an_app_in_a_sandbox_takes_the_calls_that_were_made_before() -> None:
    app = App(MEMORY)
    before = calls(app)
    async with private(app) as sandbox:
        tickets = await app.submit_many(before)
        await sandbox.drain()
        assert [await one.result() for one in tickets] == [1, 2]


async def test_a_call_is_one_job_and_is_refused_a_second_time() -> None:
    async with App(MEMORY) as app:
        one, other = calls(app)
        await app.submit_many([one])
        refused = (
            rf"^this call of 'answer' was submitted before, as job {one.id}, and would not run"
        )
        with pytest.raises(BadInput, match=refused):
            await app.submit_many([other, one])
        at_once = (app.submit_many([other]) for _ in range(3))
        ended = await asyncio.gather(*at_once, return_exceptions=True)
        assert sorted(type(end).__name__ for end in ended) == ["BadInput", "BadInput", "list"]
        assert len((await app.run(lambda store: store.jobs())).rows) == 2


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def test_a_call_that_stands_twice_in_a_batch_is_refused_as_such_and_may_be_submitted_once(
    url: str,
) -> None:
    async def in_transaction() -> Any:
        async with app.transaction() as transaction:
            return await transaction.submit_many(batch)

    twice = r"^this call of 'answer', job {}, stands twice in the batch, and would run once: .*\.$"
    app = App(url)
    one, other = calls(app)
    async with app, Executor(app=app) as executor:
        for batch in ([one, other, one], [one, copy(one)]):
            with pytest.raises(BadInput, match=twice.format(one.id)):
                await app.submit_many(batch)
            with pytest.raises(BadInput, match=twice.format(one.id)):
                await in_transaction()
        with pytest.raises(BadInput, match=twice.format(one.id)):
            await executor.submit_many([("k", one), ("l", one)])
        assert (await app.run(lambda store: store.jobs())).rows == ()
        tickets = await app.submit_many([one, other])
        assert [await ticket.result() for ticket in tickets] == [1, 2]


async def test_a_call_that_was_submitted_in_a_transaction_stays_the_same_job(
    migrated_url: str,
) -> None:
    """Whether that was committed is not known here, so that it is not refused."""
    async with App(migrated_url) as app, connected(migrated_url) as connection:
        [one, other] = calls(app)
        async with connection.transaction():
            [first] = await app.submit_many([one], connection=connection)
        [again] = await app.submit_many([one])
        await app.submit_many([other], connection=connection)  # without one, it commits at once
        assert first.id == again.id == one.id
        rows = (await app.run(lambda store: store.jobs())).rows
        assert [row.job.id for row in rows] == [other.id, one.id]

"""What applications need of an attempt: a row beside its end, and another job as a part of it."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from inturn.model.errors import BadInput
from inturn.model.ids import new_id
from inturn.policy.retry import Reject
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.store.store import Store
from tests.shop import ADD_ITEMS, ITEMS, SCHEMA, Item
from tests.worker.conftest import until, working


async def items(app: App) -> list[str]:
    async def read(store: Store) -> list[Item]:
        return await store.read(ITEMS, name=None)

    return [item.name for item in await app.run(read)]


@pytest.fixture
async def shop(app: App) -> App:
    app.schema(SCHEMA)
    await app.migrate()
    return app


async def test_many_jobs_write_a_row_each_with_their_ends(shop: App) -> None:
    @shop.job
    async def sell(ctx: Context, name: str) -> None:
        await ctx.done_with(ADD_ITEMS, Item(id=new_id(), name=name))

    names = [f"item {number:03}" for number in range(200)]
    tickets = await shop.submit_many([sell.call(name) for name in names])
    async with working(shop):
        for ticket in tickets:
            await ticket.result(timeout=60)
    assert await items(shop) == names


async def test_a_row_that_cannot_be_written_fails_its_own_job_only(shop: App) -> None:
    twice = new_id()

    @shop.job(attempts=1)
    async def sell(ctx: Context, name: str) -> None:
        same = name in ("a", "b")
        await ctx.done_with(ADD_ITEMS, Item(id=twice if same else new_id(), name=name))

    tickets = await shop.submit_many([sell.call(name) for name in "abcd"])

    async def all_ended() -> bool:
        states = [(await ticket.status()).state for ticket in tickets]
        return sorted(states) == ["dead", "done", "done", "done"]

    async with working(shop):
        await until(all_ended)
    assert len(await items(shop)) == 3


async def test_a_job_runs_as_a_part_of_another_with_its_hooks_and_its_timeout(app: App) -> None:
    seen: list[str] = []

    @app.around
    async def traced(ctx: Context) -> AsyncIterator[None]:
        seen.append(ctx.job.kind)
        yield

    @app.job(timeout=0.05)
    async def slow() -> None:
        await asyncio.sleep(60)

    @app.job
    def part(ctx: Context, name: str) -> str:
        if name == "no":
            raise Reject("it is not to be")
        with pytest.raises(BadInput, match="writes down its end by itself"):
            ctx.transaction()
        return f"dear {name}, {ctx.id}"

    @app.job
    async def whole(ctx: Context) -> list[Any]:
        with pytest.raises(Reject):
            await ctx.call("part", '{"name":"no"}')
        with pytest.raises(TimeoutError):
            await ctx.call("slow", "{}")
        with pytest.raises(BadInput, match="has no job 'nothing'"):
            await ctx.call("nothing", "{}")
        return [await ctx.call("part", '{"name":"ann"}'), str(ctx.id)]

    ticket = await whole.submit()
    async with working(app):
        said, id = await ticket.result(timeout=60)
    assert said == f"dear ann, {id}"
    assert seen == ["whole", "part", "slow", "part"]


async def test_a_part_may_run_in_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTURN_STORE", f"sqlite:///{tmp_path / 'work.db'}")
    monkeypatch.delitem(sys.modules, "tests.worker.process_jobs", raising=False)
    app: App = importlib.import_module("tests.worker.process_jobs").app

    @app.job
    async def whole(ctx: Context, n: int) -> Any:
        return await ctx.call("where", f'{{"n":{n}}}')

    ticket = await whole.submit(7)
    async with working(app):
        n, pid = await ticket.result(timeout=60)
    assert n == 7
    assert pid != os.getpid()
    await app.close()

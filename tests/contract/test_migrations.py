"""Migrations: made once, safe to repeat, and never of a store that is newer."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio

from inturn.model.clock import ManualClock
from inturn.model.errors import ResultLost, SchemaMissing, SchemaTaken, SchemaTooNew
from inturn.policy.verdict import Done
from inturn.store.address import connect
from inturn.store.postgres import migrate as postgres_migrate
from inturn.store.sqlite import migrate as sqlite_migrate
from inturn.store.store import Store
from tests.contract.support import claim, enqueue, ids, job, raw, run_all, settle, verdicts

POSTGRES = pytest.mark.parametrize("store_kind", ["postgres"], indirect=True)


@pytest_asyncio.fixture(loop_scope="session")
async def blank(empty_url: str, clock: ManualClock) -> AsyncIterator[Store]:
    """A store that was never migrated, closed when the test ends."""
    store = connect(empty_url, clock=clock)
    yield store
    await store.close()


async def test_migrating_twice_is_migrating_once(blank: Store) -> None:
    version = await blank.migrate()
    assert version >= 1
    await blank.open()
    [made] = await enqueue(blank, job(key="a"))
    assert await blank.migrate() == version
    assert ids(await claim(blank)) == [made]
    assert await blank.check() == []


async def test_a_store_of_the_first_version_is_refused_until_it_is_migrated(blank: Store) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for engine in (sqlite_migrate, postgres_migrate):
            patch.setattr(engine, "MIGRATIONS", engine.MIGRATIONS[:1])
        patch.setattr(postgres_migrate, "_make_functions", no_functions)
        assert await blank.migrate() == 1
    with pytest.raises(SchemaMissing, match=r"version 1.*needs.* [1-9]"):
        await blank.open()
    assert await blank.migrate() >= 2
    await blank.open()
    first, second = await enqueue(blank, job(key="a"), job(key="a"))
    [claimed] = await claim(blank)
    await settle(blank, [verdicts(claimed, Done("7"), Done(result_lost="no JSON"))])
    assert await blank.result(first) == "7"
    with pytest.raises(ResultLost):
        await blank.result(second)
    assert await blank.check() == []


async def no_functions(*_: object, **__: object) -> None:
    """Leave a database without functions, as it was before they had a table."""


async def test_an_older_inturn_works_on_newer_tables_that_allow_it(
    blank: Store, empty_url: str, clock: ManualClock
) -> None:
    known = await blank.migrate()
    await blank.open()
    await raw(
        blank,
        f"update @schema_version set version = {known + 7} where version = {known}",
    )
    old = connect(empty_url, clock=clock)
    try:
        await old.open()
        assert await old.migrate() == known + 7
        [made] = await enqueue(old, job())
        assert await run_all(blank) == [made]
    finally:
        await old.close()


async def test_many_that_migrate_at_once_do_not_mind(empty_url: str, clock: ManualClock) -> None:
    stores = [connect(empty_url, clock=clock) for _ in range(4)]
    try:
        versions = await asyncio.gather(*(store.migrate() for store in stores))
        assert len(set(versions)) == 1
        await stores[0].open()
        [made] = await enqueue(stores[0], job())
        await stores[1].open()
        assert await run_all(stores[1]) == [made]
    finally:
        for store in stores:
            await store.close()


@pytest.mark.corrupts
async def test_a_newer_store_is_refused_and_left_as_it_is(
    blank: Store, empty_url: str, clock: ManualClock
) -> None:
    known = await blank.migrate()
    await blank.open()
    [made] = await enqueue(blank, job())
    await raw(
        blank,
        f"update @schema_version set version = {known + 7}, oldest = {known + 7} "
        f"where version = {known}",
    )
    late = connect(empty_url, clock=clock)
    try:
        with pytest.raises(SchemaTooNew) as newer:
            await late.open()
        assert (newer.value.found, newer.value.known) == (known + 7, known)
        with pytest.raises(SchemaTooNew):
            await late.migrate()
    finally:
        await late.close()
    assert await raw(blank, "select max(version) from @schema_version") == [(known + 7,)]
    assert ids(await claim(blank)) == [made]


@POSTGRES
async def test_a_database_without_tables_is_refused_and_left_as_it_is(blank: Store) -> None:
    with pytest.raises(SchemaMissing, match="migrate"):
        await blank.open()
    with pytest.raises(SchemaMissing):
        await blank.open()
    assert await blank.migrate() >= 1
    await blank.open()
    assert await blank.queues() == []


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("create table @job (number integer)", "job"),
        ("create view @queue as select 1 as one", "queue"),
        ("create table @schema_version (version integer, name text)", "schema_version"),
    ],
)
async def test_tables_of_someone_else_are_named_and_left_as_they_are(
    blank: Store, empty_url: str, statement: str, named: str
) -> None:
    await made_by_someone_else(empty_url, statement)
    with pytest.raises(SchemaTaken, match=rf"{named}.*of its own") as refused:
        await blank.migrate()
    assert refused.value.names == (named,)
    with pytest.raises(SchemaTaken, match=rf"{named}.*of its own"):
        await blank.open()


async def made_by_someone_else(url: str, statement: str) -> None:
    """Make a table before inturn does, where its own would be."""
    if url.startswith("sqlite:///"):
        file = sqlite3.connect(url.removeprefix("sqlite:///"))
        file.execute(statement.replace("@", ""))
        file.close()
        return
    connection = await asyncpg.connect(url)
    await connection.execute("create schema inturn")
    await connection.execute(statement.replace("@", "inturn."))
    await connection.close()


async def test_what_was_accepted_is_there_when_the_store_is_opened_again(
    store: Store, store_url: str, clock: ManualClock
) -> None:
    made = await enqueue(store, job(key="a", payload='{"a": 1.0}'), job(key="a"))
    await claim(store, 1)
    again = connect(store_url, clock=clock)
    try:
        await again.open()
        assert [(await again.job(one)).job.id for one in made] == made
        assert await claim(again) == []
        clock.advance(31)
        assert (await again.reclaim()).leases == 1
        assert await run_all(again) == made
    finally:
        await again.close()

"""Tables of applications: made in order, upgraded by their owner, refused when they do not fit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from inturn.model.clock import ManualClock
from inturn.model.errors import BadInput, SchemaMissing, SchemaTooNew
from inturn.store import schema as schemas
from inturn.store.address import connect
from inturn.store.schema import (
    Migration,
    Schema,
    in_order,
    migrations_of,
    read_migrations,
    written_for,
)
from inturn.store.store import Store
from tests.contract.support import enqueue, is_postgres, job, raw

NOTES = Schema("notes", "tests.contract.notes")
TAGS = Schema("tags", "tests.contract.tags", requires=("notes",))
VERSION = 3

POSTGRES = pytest.mark.parametrize("store_kind", ["postgres"], indirect=True)
SQLITE = pytest.mark.parametrize("store_kind", ["sqlite"], indirect=True)


@pytest_asyncio.fixture(loop_scope="session")
async def own(empty_url: str, clock: ManualClock) -> AsyncIterator[Store]:
    """A store of the test's own, migrated and open."""
    store = connect(empty_url, clock=clock)
    await store.migrate()
    await store.open()
    yield store
    await store.close()


@contextmanager
def program_of(version: int) -> Iterator[None]:
    """Be a program that knows the notes up to this version."""
    known = {one: migrations_of(NOTES, one) for one in ("sqlite", "postgres")}

    def older(schema: Schema, engine: schemas.EngineName) -> list[Migration]:
        return known[engine][:version] if schema == NOTES else migrations_of(schema, engine)

    with pytest.MonkeyPatch.context() as patch:
        for engine in known:
            patch.setattr(f"inturn.store.{engine}.migrate.migrations_of", older)
        patch.setattr("inturn.store.postgres.store.migrations_of", older)
        yield


@pytest.mark.parametrize("name", ["1_orders.sql", "001_orders.sql", "0001_orders.SQL", "0001.sql"])
def test_a_migration_that_is_named_otherwise_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("select 1")
    with pytest.raises(BadInput, match=rf"{name} .* 0001_name\.sql"):
        read_migrations(tmp_path)


def test_migrations_that_are_nowhere_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no folder"):
        read_migrations(tmp_path / "gone")
    with pytest.raises(BadInput, match="no package 'gone'"):
        migrations_of(Schema("orders", "gone"), "sqlite")


async def write(store: Store, columns: str = "job, body", values: str = "'a', 'b'") -> None:
    statement = f"insert into notes.note ({columns}) values ({values})"
    await raw(store, written_for(statement, ["notes"], engine_of(store)))


def engine_of(store: Store) -> schemas.EngineName:
    return "postgres" if is_postgres(store) else "sqlite"


async def test_migrate_makes_the_tables_of_those_it_is_given_in_order(own: Store) -> None:
    engine = await own.migrate([TAGS, NOTES])
    assert await own.versions() == {"engine": engine, "notes": VERSION, "tags": 1}
    await write(own)
    await own.ensure(NOTES)
    await own.ensure(TAGS)
    assert await own.check() == []


async def test_tables_that_need_those_of_another_are_not_made_before_them(own: Store) -> None:
    with pytest.raises(SchemaMissing, match="tags need those of notes"):
        await own.migrate([TAGS])
    await own.migrate([NOTES])
    await own.migrate([TAGS])
    assert (await own.versions())["tags"] == 1


async def test_many_that_make_tables_at_once_do_not_mind(
    empty_url: str, clock: ManualClock
) -> None:
    stores = [connect(empty_url, clock=clock) for _ in range(4)]
    try:
        await asyncio.gather(*(store.migrate([NOTES, TAGS]) for store in stores))
        await asyncio.gather(*(store.open() for store in stores))
        await asyncio.gather(*(store.ensure(NOTES) for store in stores))
        await write(stores[0])
    finally:
        for store in stores:
            await store.close()


@SQLITE
async def test_on_sqlite_tables_are_made_when_they_are_first_used(
    empty_url: str, clock: ManualClock
) -> None:
    stores = [connect(empty_url, clock=clock) for _ in range(3)]
    try:
        await stores[0].open()
        with pytest.raises(SchemaMissing, match="notes"):
            await stores[0].ensure(TAGS)
        await asyncio.gather(*(store.open() for store in stores))
        await asyncio.gather(*(store.ensure(NOTES) for store in stores))
        await stores[1].ensure(TAGS)
        await write(stores[2])
    finally:
        for store in stores:
            await store.close()


async def test_a_store_in_memory_that_is_opened_again_has_its_tables_again() -> None:
    store = connect("sqlite:///:memory:")
    for _ in range(2):
        await store.open()
        await store.ensure(NOTES)
        await write(store)
        await store.close()


@POSTGRES
async def test_on_postgres_missing_tables_are_refused_with_the_command(own: Store) -> None:
    with pytest.raises(SchemaMissing, match=r"no tables of notes.*`inturn store migrate.*app\.mig"):
        await own.ensure(NOTES)
    assert "notes" not in await own.versions()


async def test_older_tables_are_refused_with_the_command_and_upgraded_by_it(
    own: Store, empty_url: str, clock: ManualClock
) -> None:
    with program_of(1):
        await own.migrate([NOTES])
        await write(own, "job, text")
    late = connect(empty_url, clock=clock)
    try:
        await late.open()
        with pytest.raises(SchemaMissing, match=r"version 1 of.*needs version 3.*-A MODULE:APP"):
            await late.ensure(NOTES)
        await late.migrate([NOTES])
        await late.ensure(NOTES)
        assert await raw(late, "select body, stars from " + table(late)) == [("b", 0)]
    finally:
        await late.close()


async def test_what_stands_in_quotes_is_no_table(own: Store) -> None:
    await own.migrate([NOTES])
    await write(own, "job", "'a'")
    assert await raw(own, "select body from " + table(own)) == [("notes.note",)]


async def test_an_older_program_goes_on_where_the_newer_tables_allow_it(
    own: Store, empty_url: str, clock: ManualClock
) -> None:
    with program_of(2):
        await own.migrate([NOTES])
    old = connect(empty_url, clock=clock)
    try:
        with program_of(1):
            await old.open()
            await old.ensure(NOTES)
            await write(old, "job, text")
            await old.migrate([NOTES])
        assert (await own.versions())["notes"] == 2
        await own.migrate([NOTES])
    finally:
        await old.close()
    late = connect(empty_url, clock=clock)
    try:
        with program_of(2):
            await late.open()
            with pytest.raises(SchemaTooNew, match="tables of notes") as refused:
                await late.ensure(NOTES)
            assert (refused.value.found, refused.value.known) == (3, 2)
            with pytest.raises(SchemaTooNew):
                await late.migrate([NOTES])
    finally:
        await late.close()


async def test_a_migration_that_fails_leaves_everything_as_it_was(own: Store) -> None:
    before = await own.versions()
    if is_postgres(own):
        await raw(own, "create schema inturn_tags")
    await raw(own, written_for("create table tags.tag (a text)", ["tags"], engine_of(own)))
    with pytest.raises(BadInput, match=r"0001 of tags cannot be applied: .*exists"):
        await own.migrate([NOTES, TAGS])
    assert await own.versions() == before
    await enqueue(own, job())


def table(store: Store) -> str:
    return written_for("notes.note", ["notes"], engine_of(store))


def test_schemas_come_in_the_order_of_what_they_require() -> None:
    third = Schema("third", "third", requires=("tags", "notes"))
    assert in_order([third, TAGS, NOTES, TAGS]) == [NOTES, TAGS, third]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([NOTES, Schema("notes", "elsewhere")], "notes and elsewhere both"),
        ([Schema("a", "a", ("b",)), Schema("b", "b", ("a",))], "require each other: a → b → a"),
    ],
)
def test_schemas_that_cannot_be_put_in_order_are_refused(wrong: list[Schema], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        in_order(wrong)


@pytest.mark.parametrize("owner", ["", "Shop", "my_shop", "7up", "engine", "schema", "a" * 33])
def test_an_owner_is_a_short_name_that_clashes_with_nothing(owner: str) -> None:
    with pytest.raises(BadInput, match="owner"):
        Schema(owner, "shop")

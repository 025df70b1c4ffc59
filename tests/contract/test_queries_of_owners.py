"""Every query of every application that has tables: both databases take it, and mean the same.

An application is found by the entry point group ``inturn.schemas``, its queries in its modules.
"""

from __future__ import annotations

import pkgutil
import re
import sqlite3
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inturn.store.address import connect
from inturn.store.queries import Query, Statement, statement, translate
from inturn.store.schema import Schema
from tests.contract.owners import owners

OWNERS = pytest.mark.parametrize("schema", owners(), ids=lambda schema: schema.owner)


def queries(schema: Schema) -> dict[str, Query[Any]]:
    """Return the queries that an application's modules declare, by name."""
    package = import_module(schema.package)
    names = [one.name for one in pkgutil.walk_packages(package.__path__, f"{schema.package}.")]
    found = [
        one
        for module in [package, *map(import_module, names)]
        for one in vars(module).values()
        if isinstance(one, Query) and one.package == schema.package
    ]
    return {one.name: one for one in found}


def names_of_files(schema: Schema) -> dict[str, set[str]]:
    """Return the folders, of ``queries``, in which each name has a file."""
    folder = files(schema.package).joinpath("queries")
    found: dict[str, set[str]] = {}
    for engine in ("", "sqlite", "postgres"):
        inside = folder.joinpath(engine) if engine else folder
        for file in inside.iterdir() if inside.is_dir() else ():
            if file.name.endswith(".sql"):
                found.setdefault(file.name.removesuffix(".sql"), set()).add(engine)
    return found


def returned(text: str) -> list[str]:
    """Return the columns that a statement that writes gives back, by what stands there."""
    _, *columns = re.split(r"\breturning\b", text)
    return [one.split()[-1].rpartition(".")[2] for one in columns[-1].split(",")] if columns else []


def columns_in_sqlite(connection: sqlite3.Connection, found: Statement) -> list[str]:
    """Have SQLite read a statement; return its columns."""
    values = dict.fromkeys(found.parameters)
    connection.execute(f"explain {found.text}", values)
    if re.match(r"(--[^\n]*\n|\s)*(insert|update|delete)", found.text):
        return returned(found.text)
    cursor = connection.execute(found.text, values)  # its tables are empty
    return [column[0] for column in cursor.description]


@OWNERS
def test_each_query_has_its_files_and_each_file_its_query(schema: Schema) -> None:
    found = names_of_files(schema)
    assert found.keys() == queries(schema).keys()
    for name, engines in found.items():
        assert engines in ({""}, {"sqlite", "postgres"}), name


@OWNERS
async def test_both_databases_take_each_query_with_the_same_parameters_and_columns(
    schema: Schema, postgres_url: str, tmp_path: Path
) -> None:
    path = tmp_path / "work.db"
    stores = [connect(f"sqlite:///{path}"), connect(postgres_url)]
    for store in stores:
        await store.migrate(owners())
        await store.open()
    sqlite = sqlite3.connect(path)
    async with stores[1].transaction() as t:
        for name, query in queries(schema).items():
            ours, theirs = statement(query, "sqlite"), statement(query, "postgres")
            assert set(ours.parameters) == set(theirs.parameters), name
            prepared = await t.connection.prepare(theirs.text)  # type: ignore[attr-defined]
            assert len(prepared.get_parameters()) == len(theirs.parameters), name
            columns = [one.name for one in prepared.get_attributes()]
            assert columns_in_sqlite(sqlite, ours) == columns, name
            if query.row is not None:
                assert {one.encode_name for one in msgspec.structs.fields(query.row)} == {*columns}
    sqlite.close()
    for store in stores:
        await store.close()


@pytest.mark.parametrize(
    ("text", "sqlite", "postgres"),
    [
        ("select 1 from shop.item", "select 1 from shop_item", "select 1 from inturn_shop.item"),
        ("select shop.item.id", "select shop_item.id", "select inturn_shop.item.id"),
        ("select s.item", "select s.item", "select s.item"),
        ("select 'shop.item'", "select 'shop.item'", "select 'shop.item'"),
        ("-- shop.item\nselect 1", "-- shop.item\nselect 1", "-- shop.item\nselect 1"),
        ("select x.shop.item", "select x.shop.item", "select x.shop.item"),
        ("do $$ shop.item $$", "do $$ shop_item $$", "do $$ inturn_shop.item $$"),
        ("select :a, :b, :a", "select :a, :b, :a", "select $1, $2, $1"),
        ("select :a::text", "select :a::text", "select $1::text"),
        ("select ':a' /* :b */ -- :c", "select ':a' /* :b */ -- :c", "select ':a' /* :b */ -- :c"),
        ("select :now", "select :now", "select coalesce($1::timestamptz, clock_timestamp())"),
        ("select 1;\n", "select 1", "select 1"),
    ],
)
def test_names_and_parameters_are_written_for_each_database(
    text: str, sqlite: str, postgres: str
) -> None:
    assert translate(text, ("shop",), "sqlite").text == sqlite
    assert translate(text, ("shop",), "postgres").text == postgres

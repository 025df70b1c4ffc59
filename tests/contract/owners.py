"""Applications with tables of their own: those that are installed, and the tests' own shop."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from importlib.resources import files
from typing import Any

from inturn.store.schema import EngineName, Schema, written_for
from inturn.store.store import Store
from tests import shop
from tests.contract.support import is_postgres


def owners() -> list[Schema]:
    """Return the schema of every application that is installed, and of the tests' own."""
    installed: list[Schema] = [one.load() for one in entry_points(group="inturn.schemas")]
    return [*installed, shop.SCHEMA]


async def make_tables(store: Store, schemas: Iterable[Schema]) -> None:
    """Make the tables of applications, empty."""
    async with store.transaction() as t:
        for schema in schemas:
            if is_postgres(store):
                connection: Any = t.connection  # type: ignore[attr-defined]
                await connection.execute(
                    f"drop schema if exists inturn_{schema.owner} cascade; "
                    f"create schema inturn_{schema.owner}"
                )
                for text in _scripts(schema, "postgres"):
                    await connection.execute(text)
            else:
                for text in _scripts(schema, "sqlite"):
                    for statement in _statements(text):
                        await t.execute(statement)


def _scripts(schema: Schema, engine: EngineName) -> Iterator[str]:
    folder = files(schema.package).joinpath("migrations", engine)
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            text = file.read_text(encoding="utf-8")
            yield written_for(text, (schema.owner, *schema.requires), engine)


def _statements(text: str) -> Iterator[str]:
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""

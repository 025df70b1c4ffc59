"""001-24: every SQL statement that inturn keeps in a file is understood by the real schema."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import asyncpg
import pytest

import inturn.store.postgres
import inturn.store.sqlite.queries
from inturn.store.engine import Engine
from inturn.store.postgres.sql import query as read
from inturn.store.postgres.store import PostgresStore
from inturn.store.sqlite.check import add_functions
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.store import SqliteStore
from inturn.store.store import Store

ON_POSTGRES = sorted(Path(inturn.store.postgres.__file__).with_name("queries").glob("*.sql"))
ON_SQLITE = sorted(Path(inturn.store.sqlite.queries.__file__).parent.glob("*.sql"))


async def test_every_statement_runs_against_the_schema_on_postgresql(
    postgres_url: str,
) -> None:
    """(001-24)"""
    store = PostgresStore(postgres_url)
    await store.migrate()
    await store.close()
    connection = await asyncpg.connect(postgres_url)
    try:
        for path in ON_POSTGRES:
            await connection.prepare(read(path.stem))
    finally:
        await connection.close()
    assert len(ON_POSTGRES) > 40


async def test_every_statement_runs_against_the_schema_on_sqlite(tmp_path: Path) -> None:
    """(001-24)"""
    path = tmp_path / "work.db"
    store = SqliteStore(str(path))
    await store.migrate()
    connection = sqlite3.connect(path)
    add_functions(connection)
    try:
        for found in ON_SQLITE:
            text = query(found.stem)
            named = dict.fromkeys(re.findall(r"[:@](\w+)", text))
            numbered = [int(one) for one in re.findall(r"\?(\d+)", text)]
            unnamed = [None] * max(numbered, default=text.count("?"))
            connection.execute(f"explain {text}", named or unnamed)
    finally:
        connection.close()
    assert len(ON_SQLITE) > 40


@pytest.mark.parametrize("engine", [SqliteStore, PostgresStore])
def test_an_engine_has_every_verb(engine: type[Store]) -> None:
    """One that it left out would return None."""
    verbs = [name for name in vars(Engine) if name.startswith("_") and name[1] != "_"]
    assert len(verbs) > 30
    assert [name for name in verbs if getattr(engine, name) is getattr(Engine, name)] == []

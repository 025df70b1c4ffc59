"""Bringing a database to this version: numbered migrations, then every function anew."""

from __future__ import annotations

import hashlib
import re

from inturn.model.errors import (
    FunctionsDiffer,
    SchemaMissing,
    SchemaTaken,
    SchemaTooNew,
    StoreError,
)
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.sql import folder, query

LOCK = 0x696E7475726E  # "inturn"
MIGRATIONS = folder("migrations")
FUNCTIONS = folder("functions")
VERSION = len(MIGRATIONS)

_FUNCTIONS_TEXT = "\n".join(text for _, text in FUNCTIONS)
FUNCTIONS_MARK = f"inturn's functions {hashlib.sha256(_FUNCTIONS_TEXT.encode()).hexdigest()}"
"""What is noted at the schema: which functions are in it."""

_MADE = re.compile(
    r"^create (?:unique )?(?:table|index|view|sequence|type) (?:inturn\.)?(\w+)", re.MULTILINE
)


async def migrate(connection: Connection) -> int:
    """Apply what is missing, in one transaction; return the version. Safe to repeat."""
    async with connection.transaction():
        await connection.execute("set local lock_timeout = '60s'")
        await connection.execute("set local statement_timeout = '0'")
        await connection.execute("select pg_advisory_xact_lock($1)", LOCK)
        await _check_encoding(connection)
        await _check_taken(connection)
        found = await version(connection)
        if found > VERSION:
            raise SchemaTooNew(found, VERSION)
        if found == 0:
            await _make_schema(connection)
        for number, (_, text) in enumerate(MIGRATIONS, start=1):
            if number > found:
                await connection.execute(text)
                await connection.execute(
                    "insert into inturn.schema_version (version) values ($1)", number
                )
        await _renew_functions(connection)
    return VERSION


async def version(connection: Connection) -> int:
    """Return the version of the tables here; 0 when there are none."""
    if await connection.fetchval("select to_regclass('inturn.schema_version')") is None:
        return 0
    return await connection.fetchval("select max(version) from inturn.schema_version") or 0


async def check_version(connection: Connection) -> None:
    """Refuse a database that this inturn cannot work with."""
    await _check_taken(connection)
    found = await version(connection)
    if found > VERSION:
        raise SchemaTooNew(found, VERSION)
    if found < VERSION:
        raise SchemaMissing(
            f"the database has schema version {found} and this inturn needs {VERSION}. "
            f"Run `inturn store migrate` or call `migrate()` once."
        )
    if await connection.fetchval(query("schema_comment")) != FUNCTIONS_MARK:
        raise FunctionsDiffer(
            "the database has the functions of another inturn than this one. If this is the newer, "
            "run `inturn store migrate` with it; if it is the older, upgrade it here. Nothing was "
            "changed."
        )


async def _check_taken(connection: Connection) -> None:
    """Refuse a schema of someone else's with tables of the same names as inturn's."""
    names, is_ours = await connection.fetchrow(query("relations"))
    ours = {"schema_version"}
    for _, text in MIGRATIONS:
        ours.update(_MADE.findall(text))
    if not is_ours and (taken := ours & set(names or ())):
        raise SchemaTaken(
            "the schema inturn of this database", taken, "Give inturn a database of its own."
        )


async def _check_encoding(connection: Connection) -> None:
    """Refuse a database that cannot keep every name and payload."""
    encoding = await connection.fetchval("show server_encoding")
    if encoding != "UTF8":
        raise StoreError(
            f"the database has the encoding {encoding}, in which not every name and payload can be "
            f"kept. Create one with encoding UTF8. Nothing was changed."
        )


async def _make_schema(connection: Connection) -> None:
    """Make what the migrations stand on. A schema that an administrator made will do."""
    if not await connection.fetchval("select to_regnamespace('inturn') is not null"):
        await connection.execute("create schema inturn")
    await connection.execute(
        "create table inturn.schema_version "
        "(version integer primary key, applied_at timestamptz not null default now())"
    )


async def _renew_functions(connection: Connection) -> None:
    """Make the functions anew if they are not these, dropping all first: a change may be to what a
    function takes or returns.
    """
    if await connection.fetchval(query("schema_comment")) == FUNCTIONS_MARK:
        return
    await connection.execute(query("drop_functions"))
    await connection.execute("set local check_function_bodies = off")
    await connection.execute(_FUNCTIONS_TEXT)
    mark = FUNCTIONS_MARK.replace("'", "''")
    await connection.execute(f"comment on schema inturn is '{mark}'")

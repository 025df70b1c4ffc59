"""Bringing a database to this version: numbered migrations, then the functions of this version."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files

import asyncpg

from inturn.model.errors import SchemaMissing, SchemaTaken, StoreError
from inturn.store.postgres.pool import Connection
from inturn.store.postgres.sql import FUNCTIONS, functions, query
from inturn.store.schema import (
    ENGINE,
    Migration,
    Schema,
    Version,
    check_not_too_new,
    check_required,
    in_order,
    migration_failed,
    migrations_of,
    missing_migrations,
    read_migrations,
    versions,
)

LOCK = 0x696E7475726E  # "inturn"
MIGRATIONS = read_migrations(files(__package__) / "migrations")
OWNED = 8
"""The version of the engine since which ``schema_version`` says whose tables it is about."""

_MADE = re.compile(
    r"^create (?:unique )?(?:table|index|view|sequence|type) (?:inturn\.)?(\w+)", re.MULTILINE
)


async def migrate(connection: Connection, schemas: Iterable[Schema] = ()) -> int:
    """Apply what is missing, in one transaction; return the engine's version. Safe to repeat."""
    async with connection.transaction():
        await connection.execute("set local lock_timeout = '60s'")
        await connection.execute("set local statement_timeout = '0'")
        await connection.execute("select pg_advisory_xact_lock($1)", LOCK)
        await _check_encoding(connection)
        await _check_taken(connection)
        if not await found_versions(connection):
            await _make_schema(connection)
        await _apply(connection, ENGINE, MIGRATIONS)
        for schema in in_order(schemas):
            check_required(schema, await found_versions(connection))
            await _make_namespace(connection, f"inturn_{schema.owner}")
            await _apply(connection, schema.owner, migrations_of(schema, "postgres"))
        there = await found_versions(connection)
        version = there[ENGINE].number
        await _make_functions(connection, is_older=version > len(MIGRATIONS))
        for grant in await connection.fetch(query("grants"), [f"inturn_{one}" for one in there]):
            await connection.execute(grant[0])
        return version


async def found_versions(connection: Connection) -> dict[str, Version]:
    """Return the version of each owner's tables."""
    if await connection.fetchval("select to_regclass('inturn.schema_version')") is None:
        return {}
    return versions(await connection.fetch(query("versions")))


async def check_engine(connection: Connection) -> None:
    """Refuse a database that this inturn cannot work with."""
    await _check_taken(connection)
    found = await found_versions(connection)
    check_not_too_new(ENGINE, found, MIGRATIONS)
    version = found.get(ENGINE, Version()).number
    if version < len(MIGRATIONS):
        older = f"schema version {version}, and this inturn needs {len(MIGRATIONS)}"
        raise SchemaMissing(
            f"the database has {older if version else 'no tables of inturn yet'}. "
            f"Run `inturn store migrate` with --app or --store, or call `migrate()` once."
        )
    if not await connection.fetchval("select to_regnamespace($1) is not null", FUNCTIONS):
        raise SchemaMissing(
            "the database does not have the functions of this version of inturn. "
            "Run `inturn store migrate` with it, or call `migrate()` once."
        )


async def _apply(connection: Connection, owner: str, migrations: list[Migration]) -> None:
    for one in missing_migrations(owner, await found_versions(connection), migrations):
        try:
            await connection.execute(one.text)
        except asyncpg.PostgresError as error:
            state = error.sqlstate or ""
            if state[:2] not in ("22", "23", "42") or state == "42501":  # rights: said elsewhere
                raise
            raise migration_failed(owner, one, error) from error
        if owner == ENGINE and one.number < OWNED:
            step = "insert into inturn.schema_version (version) values ($1)"
            await connection.execute(step, one.number)
        else:
            step = "insert into inturn.schema_version (owner, version, oldest) values ($1, $2, $3)"
            await connection.execute(step, owner, one.number, one.oldest)


async def _check_taken(connection: Connection) -> None:
    """Refuse a schema of someone else's with tables of the same names as inturn's."""
    names, is_ours = await connection.fetchrow(query("relations"))
    ours = {"schema_version"}
    for one in MIGRATIONS:
        ours.update(_MADE.findall(one.text))
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
    """Make what the migrations stand on."""
    await _make_namespace(connection, "inturn")
    await connection.execute(
        "create table inturn.schema_version "
        "(version integer primary key, applied_at timestamptz not null default now())"
    )


async def _make_namespace(connection: Connection, name: str) -> None:
    """Make a schema of PostgreSQL's. One that an administrator made will do."""
    if not await connection.fetchval("select to_regnamespace($1) is not null", name):
        await connection.execute(f"create schema {name}")


async def _make_functions(connection: Connection, *, is_older: bool) -> None:
    """Make this version's functions, beside those of others, and drop what nobody needs any more.

    The public ones then call these, if they are new here: a version that comes back, or is older
    than the tables, does not take them from a later one.
    """
    for name in await connection.fetch(query("unused_functions"), FUNCTIONS):
        await connection.execute(f"drop schema if exists {name[0]} cascade")
        await connection.execute(
            "update inturn.functions set dropped_at = now() where name = $1", name[0]
        )
    is_known = await connection.fetchval(
        "select true from inturn.functions where name = $1", FUNCTIONS
    )
    if not await connection.fetchval("select to_regnamespace($1) is not null", FUNCTIONS):
        await connection.execute(f"create schema {FUNCTIONS}")
        await connection.execute(f"grant usage on schema {FUNCTIONS} to public")
        await connection.execute("set local check_function_bodies = off")
        await connection.execute(functions())
        await connection.execute(query("list_functions"), FUNCTIONS)
    if not is_known and not is_older:
        for text in await connection.fetch(query("make_public"), FUNCTIONS):
            await connection.execute(text[0])
        await connection.execute(query("replace_functions"), FUNCTIONS)

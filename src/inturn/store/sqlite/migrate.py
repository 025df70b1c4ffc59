"""Making the tables, and knowing their versions."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from importlib.resources import files

from inturn.model.errors import SchemaMissing, SchemaTaken
from inturn.store.schema import (
    ENGINE,
    Migration,
    Schema,
    Version,
    check_not_too_new,
    check_required,
    check_version,
    in_order,
    migration_failed,
    migrations_of,
    missing_migrations,
    read_migrations,
    versions,
)
from inturn.store.sqlite import migrations
from inturn.store.sqlite.rows import Micros

MIGRATIONS = read_migrations(files(migrations))
OWNED = 4
"""The version of the engine since which ``schema_version`` says whose tables it is about."""

_MADE = re.compile(r"^create (?:unique )?(?:table|index|view|trigger) (\w+)", re.MULTILINE)


def migrate(connection: sqlite3.Connection, now: Micros, schemas: Iterable[Schema] = ()) -> int:
    """Bring the tables to their versions, inside the caller's transaction; return the engine's."""
    connection.execute(
        "create table if not exists schema_version "
        "(version integer primary key, migrated_at integer not null) strict"
    )
    _apply(connection, now, ENGINE, MIGRATIONS)
    for schema in in_order(schemas):
        make(connection, now, schema)
    return found_versions(connection)[ENGINE].number


def make(connection: sqlite3.Connection, now: Micros, schema: Schema) -> None:
    """Bring an application's tables to their version, inside the caller's transaction."""
    check_required(schema, found_versions(connection))
    _apply(connection, now, schema.owner, migrations_of(schema, "sqlite"))


def found_versions(connection: sqlite3.Connection, now: Micros = 0) -> dict[str, Version]:
    """Return the version of each owner's tables."""
    columns = {row[1] for row in connection.execute("pragma table_info(schema_version)")}
    if not columns:
        return {}
    steps = "owner, version, oldest" if "owner" in columns else "'engine', version, version"
    return versions(connection.execute(f"select {steps} from schema_version"))


def is_empty(connection: sqlite3.Connection) -> bool:
    """Say whether the file holds nothing at all yet."""
    return connection.execute("select 1 from sqlite_master limit 1").fetchone() is None


def check_engine(connection: sqlite3.Connection, path: str) -> None:
    """Refuse tables that are missing, older, or too new for this inturn."""
    found = found_versions(connection)
    check_not_too_new(ENGINE, found, MIGRATIONS)
    version = found.get(ENGINE, Version()).number
    if version < len(MIGRATIONS):
        state = f"has schema version {version}" if version else "has no tables of inturn yet"
        raise SchemaMissing(
            f"{path} {state}; this inturn needs version {len(MIGRATIONS)}. "
            f"Run `inturn store migrate --store sqlite:///{path}`, or call migrate()."
        )


def is_there(connection: sqlite3.Connection, now: Micros, schema: Schema, path: str) -> bool:
    """Say whether an application's tables are there; refuse others than of this version."""
    found = found_versions(connection)
    if schema.owner not in found:
        return False
    wanted = migrations_of(schema, "sqlite")
    check_version(schema, found, wanted, url=f"sqlite:///{path}")
    return True


def check_taken(connection: sqlite3.Connection, path: str) -> None:
    """Refuse a database of someone else's with tables of the same names as inturn's.

    One statement: another process may be making the tables at this moment.
    """
    found = dict(connection.execute("select lower(name), coalesce(sql, '') from sqlite_master"))
    if "migrated_at" in found.get("schema_version", ""):
        return
    ours = {"schema_version"}.union(*(_MADE.findall(one.text) for one in MIGRATIONS))
    if taken := ours & found.keys():
        raise SchemaTaken(path, taken, "Give inturn a file of its own.")


def _apply(
    connection: sqlite3.Connection, now: Micros, owner: str, migrations: list[Migration]
) -> None:
    for one in missing_migrations(owner, found_versions(connection), migrations):
        try:
            for statement in _statements(one.text):
                connection.execute(statement)
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code not in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT):
                raise
            raise migration_failed(owner, one, error) from error
        if owner == ENGINE and one.number < OWNED:
            connection.execute("insert into schema_version values (?, ?)", (one.number, now))
        else:
            step = (owner, one.number, one.oldest, now)
            connection.execute("insert into schema_version values (?, ?, ?, ?)", step)


def _statements(text: str) -> Iterator[str]:
    """Yield statements one by one: ``executescript`` would commit in between."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    yield statement  # the last needs no semicolon

"""Making the tables, and knowing their version."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from importlib.resources import files

from inturn.model.errors import SchemaMissing, SchemaTaken, SchemaTooNew
from inturn.store.sqlite import migrations
from inturn.store.sqlite.rows import Micros

VERSION = 3

_MADE = re.compile(r"^create (?:unique )?(?:table|index|view|trigger) (\w+)", re.MULTILINE)


def migrate(connection: sqlite3.Connection, now: Micros) -> int:
    """Bring the tables to this version, inside the caller's transaction; return the version."""
    found = version(connection)
    if found > VERSION:
        raise SchemaTooNew(found, VERSION)
    connection.execute(
        "create table if not exists schema_version "
        "(version integer primary key, migrated_at integer not null) strict"
    )
    for number in range(found + 1, VERSION + 1):
        for statement in _statements(number):
            connection.execute(statement)
        connection.execute("insert into schema_version values (?, ?)", (number, now))
    return VERSION


def version(connection: sqlite3.Connection) -> int:
    """Return the version of the tables; 0 when there are none."""
    known = "select 1 from sqlite_master where type = 'table' and name = 'schema_version'"
    if connection.execute(known).fetchone() is None:
        return 0
    row = connection.execute("select max(version) from schema_version").fetchone()
    return row[0] or 0


def is_empty(connection: sqlite3.Connection) -> bool:
    """Say whether the file holds nothing at all yet."""
    return connection.execute("select 1 from sqlite_master limit 1").fetchone() is None


def check_version(connection: sqlite3.Connection, path: str) -> None:
    """Refuse tables that are missing, older, or newer than this inturn knows."""
    found = version(connection)
    if found > VERSION:
        raise SchemaTooNew(found, VERSION)
    if found < VERSION:
        state = f"has schema version {found}" if found else "has no tables of inturn yet"
        raise SchemaMissing(
            f"{path} {state}; this inturn needs version {VERSION}. "
            f"Run `inturn store migrate --store sqlite:///{path}`, or call migrate()."
        )


def check_taken(connection: sqlite3.Connection, path: str) -> None:
    """Refuse a database of someone else's with tables of the same names as inturn's.

    One statement: another process may be making the tables at this moment.
    """
    found = dict(connection.execute("select lower(name), coalesce(sql, '') from sqlite_master"))
    if "migrated_at" in found.get("schema_version", ""):
        return
    ours = {"schema_version", *_names()}
    if taken := ours & found.keys():
        raise SchemaTaken(path, taken, "Give inturn a file of its own.")


def _names() -> Iterator[str]:
    """Yield the name of everything that migrations make."""
    for number in range(1, VERSION + 1):
        for statement in _statements(number):
            yield from _MADE.findall(statement)


def _statements(number: int) -> Iterator[str]:
    """Yield a version's statements one by one: ``executescript`` would commit in between."""
    for file in sorted(files(migrations).iterdir(), key=lambda file: file.name):
        if not file.name.startswith(f"{number:04}_"):
            continue
        statement = ""
        for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                yield statement
                statement = ""

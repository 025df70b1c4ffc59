"""An application's own queries, as SQLite runs them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from inturn.model.errors import BadInput, ConstraintBroken
from inturn.store.queries import Query, Row, decode, statement
from inturn.store.sqlite.rows import Micros, micros, time_of


def run(
    connection: sqlite3.Connection, now: Micros, query: Query[Row], given: Mapping[str, Any]
) -> list[Row]:
    """Run a query and return its rows."""
    found = statement(query, "sqlite")
    values = found.values(query, given)
    for name, value in values.items():
        if isinstance(value, datetime):
            values[name] = micros(value)
        elif value is None and name == "now":
            values[name] = now
    try:
        cursor = connection.execute(found.text, values)
    except sqlite3.IntegrityError as error:
        raise ConstraintBroken(f"SQLite refuses a row of {query}: {error}.") from error
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise BadInput(f"SQLite cannot run {query}: {error}.") from error
    columns = [column[0] for column in cursor.description or ()]
    return decode(query, columns, cursor.fetchall(), time_of)


def read(
    connection: sqlite3.Connection, now: Micros, query: Query[Row], given: Mapping[str, Any]
) -> list[Row]:
    """Run a query that may not write, on whichever connection: in memory there is but one."""
    [was_read_only] = connection.execute("pragma query_only").fetchone()
    connection.execute("pragma query_only = on")
    try:
        return run(connection, now, query, given)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
            raise
        raise BadInput(
            f"{query} writes, and read() never does. Run it in a transaction."
        ) from error
    finally:
        connection.execute(f"pragma query_only = {was_read_only}")

"""The app of ``jobs`` where its store is a SQLite file that this process may only read."""

from __future__ import annotations

import sqlite3
from typing import Any

from tests.processes.jobs import app

__all__ = ["app"]

_connect = sqlite3.connect


def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
    connection: sqlite3.Connection = _connect(*arguments, **options)
    connection.execute("pragma query_only = on")
    return connection


sqlite3.connect = connect  # type: ignore[assignment]

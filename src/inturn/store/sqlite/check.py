"""Verifying every invariant of the tables, with a sentence for each that does not hold."""

from __future__ import annotations

import sqlite3
from uuid import UUID

from inturn.store.sqlite.queries import query
from inturn.store.sqlite.times import Micros

_FAULTS_MAX = 20
CHECKS = (
    "check_lanes",
    "check_log",
    "check_leases",
    "check_runs",
    "check_places",
    "check_waits",
    "check_parked",
    "check_marks",
    "check_queues",
    "check_depth",
)


def check(connection: sqlite3.Connection, now: Micros) -> list[str]:
    """Return a sentence for each invariant that does not hold, at most a few of a sort."""
    connection.create_function("uuid", 1, _uuid, deterministic=True)
    said: list[str] = []
    for [fault] in connection.execute(f"pragma integrity_check({_FAULTS_MAX})"):
        if fault != "ok":
            said.append(f"SQLite finds the file damaged: {fault}.")
    for name in CHECKS:
        said += [sentence for (sentence,) in connection.execute(query(name)).fetchmany(_FAULTS_MAX)]
    return said


def _uuid(id: bytes) -> str:
    """Name a job in a sentence as callers know it."""
    return str(UUID(bytes=id)) if len(id) == 16 else id.hex()

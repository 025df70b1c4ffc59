"""Verifying every invariant of the tables, with a sentence for each that does not hold."""

from __future__ import annotations

import sqlite3
from itertools import pairwise
from uuid import UUID

import msgspec

from inturn.store.sqlite.leases import lanes_under
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.rows import Micros
from inturn.store.sqlite.run import decode_ranges, encode_ranges

_FAULTS_MAX = 20
CHECKS = (
    "check_lanes",
    "check_log",
    "check_leases",
    "check_runs",
    "check_places",
    "check_waits",
    "check_parked",
    "check_attempts",
    "check_marks",
    "check_queues",
    "check_starts",
    "check_depth",
)


def check(connection: sqlite3.Connection, now: Micros) -> list[str]:
    """Return a sentence for each invariant that does not hold, at most a few of a sort."""
    add_functions(connection)
    said: list[str] = []
    for [fault] in connection.execute(f"pragma integrity_check({_FAULTS_MAX})"):
        if fault != "ok":
            said.append(f"SQLite finds the file damaged: {fault}.")
    for name in CHECKS:
        said += [sentence for (sentence,) in connection.execute(query(name)).fetchmany(_FAULTS_MAX)]
    return said


def add_functions(connection: sqlite3.Connection) -> None:
    """Let a connection's queries use what they could not say by themselves."""
    for name, function in (("uuid", _uuid), ("as_ranges", _as_ranges), ("as_lanes", _as_lanes)):
        connection.create_function(name, 1, function, deterministic=True)


def _uuid(id: bytes) -> str:
    """Name a job in a sentence as callers know it."""
    return str(UUID(bytes=id)) if len(id) == 16 else id.hex()


def _as_ranges(kept: str) -> str | None:
    """Return what is settled of a run if it is ranges, in order and never touching; or nothing."""
    try:
        ranges = decode_ranges(kept)
    except msgspec.DecodeError:
        return None
    are_whole = all(first <= last for first, last in ranges)
    are_apart = all(before[1] + 1 < after[0] for before, after in pairwise(ranges))
    return encode_ranges(ranges) if are_whole and are_apart else None


def _as_lanes(kept: str) -> str | None:
    """Return the lanes under a lease if they are a list of numbers; or nothing."""
    try:
        lanes_under(kept)
    except msgspec.DecodeError:
        return None
    return kept

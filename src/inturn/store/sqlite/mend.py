"""Mending what should never be: lanes left inactive with jobs, and waits that have ended.

One writer at a time leaves no way for either to come about. A sweep looks all the same, a slice at
a time, so that it costs the same whatever the number of lanes.
"""

from __future__ import annotations

import sqlite3
from random import Random

from inturn.store.sqlite import dependents, lane_row, queue_row
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.times import Micros

_SLICE_ROWS = 1_000


def mend(connection: sqlite3.Connection, now: Micros) -> None:
    """Look through a slice of the lanes and of the blocked jobs, chosen by the time."""
    chance = Random(now)
    _mend_lanes(connection, chance)
    _mend_waits(connection, chance)


def _mend_lanes(connection: sqlite3.Connection, chance: Random) -> None:
    largest = connection.execute("select max(id) from lane").fetchone()[0] or 0
    start = chance.randint(0, largest) if largest > _SLICE_ROWS else 0
    for (lane,) in connection.execute(query("stranded_lanes"), (start, _SLICE_ROWS)).fetchall():
        row = lane_row.load(connection, lane)
        assert row is not None
        lane_row.refresh(connection, queue_row.made(connection, row.queue), row)


def _mend_waits(connection: sqlite3.Connection, chance: Random) -> None:
    [count] = connection.execute("select sum(blocked) from depth").fetchone()
    if not count:
        return
    start = b""
    if count > _SLICE_ROWS:
        ends = connection.execute("select min(id), max(id) from blocked").fetchone()
        low, high = (int.from_bytes(end) for end in ends)
        start = chance.randint(low, high).to_bytes(16)
    ended = connection.execute(query("ended_waits"), (start, _SLICE_ROWS)).fetchall()
    dependents.admit(connection, [job for (job,) in ended])

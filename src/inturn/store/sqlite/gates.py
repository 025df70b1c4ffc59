"""Gates: rounds are opened one after another."""

from __future__ import annotations

import sqlite3

from inturn.model.errors import UnknownQueue
from inturn.model.lane import Gate
from inturn.store.sqlite import queue_row
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.times import Micros


def open_gate(connection: sqlite3.Connection, now: Micros, queue: str, *, round: int) -> int:
    """Open the gate as far as a round (it never closes); return the highest open round."""
    gate = max(queue_row.made(connection, queue).gate, round)
    connection.execute("update queue set gate = ? where name = ? and gate < ?", (gate, queue, gate))
    return gate


def advance_gate(connection: sqlite3.Connection, now: Micros, queue: str) -> Gate:
    """Open the next round that has jobs if nothing of the open rounds is unfinished."""
    row = queue_row.find(connection, queue)
    if row is None:
        raise UnknownQueue(queue)
    arguments = {"queue": queue, "gate": row.gate, "halts": row.on_dead == "halt"}
    unfinished: int = connection.execute(query("unfinished"), arguments).fetchone()[0]
    if unfinished:
        return Gate(round=row.gate, advanced=False, unfinished=unfinished, exhausted=False)
    following: int | None = connection.execute(query("next_round"), arguments).fetchone()[0]
    if following is None:
        return Gate(round=row.gate, advanced=False, unfinished=0, exhausted=True)
    connection.execute("update queue set gate = ? where name = ?", (following, queue))
    return Gate(round=following, advanced=True, unfinished=0, exhausted=False)

"""Applying a change: one work for all that it says."""

from __future__ import annotations

import sqlite3

from inturn.model.job import Ticket
from inturn.store.change import Checked
from inturn.store.sqlite import own_queries, queues
from inturn.store.sqlite.cancel import cancel
from inturn.store.sqlite.enqueue import enqueue
from inturn.store.sqlite.rows import Micros
from inturn.store.sqlite.settle import settle


def apply(connection: sqlite3.Connection, now: Micros, change: Checked) -> list[Ticket]:
    """Do what a change says, in its order; return the tickets of what it enqueues."""
    for query, given in change.rows:
        own_queries.run(connection, now, query, given)
    if change.settling is not None:
        settle(connection, now, change.settling)
    for job in change.cancel:
        cancel(connection, now, job, by=change.by)
    tickets = enqueue(connection, now, change.jobs)
    for queue, round in change.gates:
        if round is None:
            queues.advance_gate(connection, now, queue)
        else:
            queues.open_gate(connection, now, queue, round=round)
    return tickets

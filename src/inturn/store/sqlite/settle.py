"""Settling: saying what became of leased jobs, whole or not at all."""

from __future__ import annotations

import sqlite3

from inturn.model.errors import LeaseLost
from inturn.policy.settling import Settling
from inturn.store.sqlite.settle_keyed import settle_keyed
from inturn.store.sqlite.settle_open import settle_open
from inturn.store.sqlite.settle_parked import settle_parked
from inturn.store.sqlite.settler import Settler
from inturn.store.sqlite.stats import add_stats
from inturn.store.sqlite.times import Micros


def settle(connection: sqlite3.Connection, now: Micros, settling: Settling) -> None:
    """Write what became of leased jobs. On ``LeaseLost`` the caller takes it all back."""
    settler = Settler(connection, now, settling.worker)
    lost: list[int] = []
    for settlement in settling.settlements:
        lease = settlement.lease
        if not settlement.outcomes:
            continue
        try:
            if lease.lane is None:
                settle_parked(settler, settlement)
            elif lease.key is None:
                settle_open(settler, settlement)
            else:
                settle_keyed(settler, settlement)
        except LeaseLost:
            lost.append(lease.token)
    if lost:
        raise LeaseLost(lost)
    if settler.wrong is not None:
        raise settler.wrong
    settler.admit_dependents()
    add_stats(connection, now, settling.tallies())

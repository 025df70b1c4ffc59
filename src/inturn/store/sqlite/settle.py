"""Settling: saying what became of leased jobs, whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from inturn.model import bounds
from inturn.model.admissible import check_name
from inturn.model.errors import LeaseLost
from inturn.policy.done_runs import done_runs
from inturn.policy.settlement import (
    Settlement,
    check_settlement,
    check_volume,
    gathered,
)
from inturn.policy.tally import tallies
from inturn.store.sqlite.settle_keyed import settle_keyed
from inturn.store.sqlite.settle_open import settle_open
from inturn.store.sqlite.settle_parked import settle_parked
from inturn.store.sqlite.settler import Settler
from inturn.store.sqlite.stats import add_stats
from inturn.store.sqlite.times import Micros


def check_settlements(settlements: Sequence[Settlement], worker: str) -> None:
    """Refuse settlements that their leases cannot carry, before the store is touched."""
    check_name("worker", worker, bounds.WORKER_CHARS_MAX)
    if done_runs(settlements) is not None:
        return
    every = gathered(settlements)
    for settlement in every:
        check_settlement(settlement)
    check_volume(every)


def settle(
    connection: sqlite3.Connection, now: Micros, settlements: Sequence[Settlement], *, worker: str
) -> None:
    """Write what became of leased jobs. On ``LeaseLost`` the caller takes it all back."""
    settler = Settler(connection, now, worker)
    lost: list[int] = []
    for settlement in gathered(settlements):
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
    add_stats(connection, now, tallies(settlements))

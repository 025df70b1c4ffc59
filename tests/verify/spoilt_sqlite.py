"""Parts of the SQLite engine taken out, one at a time, in the process that calls one of these."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from inturn.model.errors import LeaseLost
from inturn.model.job import NewJob, Ticket
from inturn.model.lease import Claim
from inturn.policy.settlement import Settlement
from inturn.store.sqlite import claim as claiming
from inturn.store.sqlite import dead, lane_row, reclaim
from inturn.store.sqlite import enqueue as enqueuing
from inturn.store.sqlite import settle as settling
from inturn.store.sqlite.run import Run
from inturn.store.sqlite.settle import Settler
from inturn.store.sqlite.store import SqliteStore

BETWEEN_SECONDS = 0.05


def fence() -> None:
    """Settle a lane for whoever comes, and tell all others that they settled, too."""
    settle: Any = settling
    keyed, others = settle.settle_keyed, (settle.settle_open, settle.settle_parked)

    def settle_keyed(settler: Settler, settlement: Settlement) -> None:
        lane = lane_row.load(settler.connection, settlement.lease.lane or 0)
        assert lane is not None
        token = settlement.lease.token if lane.token is None else lane.token
        lease = msgspec.structs.replace(settlement.lease, token=token)
        held = [one for one in settlement.outcomes if one.job.position < lane.cursor]
        _said_yes(keyed, settler, Settlement(lease, held or settlement.outcomes))

    settle.settle_keyed = settle_keyed
    for real in others:
        name = real.__name__
        setattr(settle, name, lambda settler, said, real=real: _said_yes(real, settler, said))


def _said_yes(real: Any, settler: Settler, settlement: Settlement) -> None:
    settler.connection.execute("savepoint fenced")
    try:
        real(settler, settlement)
    except LeaseLost:
        settler.connection.execute("rollback to fenced")
    settler.connection.execute("release fenced")


def tail_lock() -> None:
    """Give positions in one transaction and write the jobs in another, a moment later."""
    unwritten: list[tuple[Any, ...]] = []
    real_insert, real_enqueue = enqueuing.insert_jobs, SqliteStore.enqueue

    def insert_later(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        unwritten.extend(rows)

    async def enqueue(
        self: SqliteStore, jobs: Sequence[NewJob], *, connection: Any = None
    ) -> list[Ticket]:
        tickets = await real_enqueue(self, jobs, connection=connection)
        await asyncio.sleep(BETWEEN_SECONDS)
        rows = unwritten[:]
        unwritten.clear()
        await self._write(lambda connection, now: real_insert(connection, rows))
        return tickets

    enqueuing.insert_jobs = insert_later
    SqliteStore.enqueue = enqueue  # type: ignore[method-assign,assignment]


def attempt_count() -> None:
    """Count no attempt but the first."""
    real_move, real_parked = claiming._move_cursor, claiming.Claimer.lease_parked

    def move_cursor(claimer: claiming.Claimer, run: Run, token: int) -> None:
        run.lane.head_attempt = 0
        real_move(claimer, run, token)

    def lease_parked(self: claiming.Claimer, id: bytes, *, alone: bool) -> Claim:
        self.connection.execute("update parked set attempt = 0 where id = ?", (id,))
        return real_parked(self, id, alone=alone)

    claiming._move_cursor = move_cursor
    claiming.Claimer.lease_parked = lease_parked  # type: ignore[method-assign]


def single_lease() -> None:
    """Let a lane be claimed while a worker has it."""
    real = lane_row.save

    def is_claimable(self: lane_row.LaneRow) -> bool:
        held = (self.ready_at, self.halted_at, self.paused_at)
        return bool(self.active) and all(one is None for one in held)

    def save(connection: sqlite3.Connection, lane: lane_row.LaneRow) -> None:
        connection.execute("pragma ignore_check_constraints = on")
        real(connection, lane)

    lane_row.LaneRow.is_claimable = is_claimable  # type: ignore[method-assign]
    lane_row.save = save


def atomic_bury() -> None:
    """Let a job leave its lane, and fail before its dead letter is written."""
    real = dead.bury_logged

    def bury_logged(connection: sqlite3.Connection, *arguments: Any, **about: Any) -> bytes:
        job = real(connection, *arguments, **about)
        connection.execute("delete from dead where id = ?", (job,))
        return job

    dead.bury_logged = bury_logged


def crash_count() -> None:
    """Count a crash against the head of a lane that was not alone."""
    real = reclaim._Lost.suspect_lane

    def suspect_lane(self: reclaim._Lost, lane: lane_row.LaneRow) -> int:
        lane.head_attempt += 1
        return real(self, lane)

    reclaim._Lost.suspect_lane = suspect_lane  # type: ignore[method-assign]

"""Who claims what, until when; and the leases that are written for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from inturn.model.job import LeasedJob
from inturn.model.lease import Claim, Lease
from inturn.store.sqlite.queue_row import QueueRow
from inturn.store.sqlite.rows import WHOLE_JOB
from inturn.store.sqlite.times import Micros, time_of


class Claimer(msgspec.Struct, frozen=True, kw_only=True):
    """One call of claim: the queue, the worker, the time, and the kinds as JSON (None: all)."""

    connection: sqlite3.Connection
    queue: QueueRow
    worker: str
    now: Micros
    until: Micros
    kinds: str | None

    def choice(self, jobs_max: int) -> dict[str, Any]:
        """Return the arguments of the queries that choose what to claim."""
        return {
            "queue": self.queue.name,
            "gate": self.queue.gate,
            "kinds": self.kinds,
            "jobs_max": jobs_max,
        }

    def next_token(self) -> int:
        """Return the token of the next lease: the writer is alone, so nobody else takes it."""
        statement = "select max(seq) from sqlite_sequence where name = 'lease'"
        return (self.connection.execute(statement).fetchone()[0] or 0) + 1

    def lease(self, token: int, *, lanes: Sequence[int], unsettled: int, alone: bool) -> None:
        """Write a lease."""
        self.connection.execute(
            "insert into lease (token, queue, worker, claimed_at, until, lanes, unsettled, alone) "
            "values (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                token,
                self.queue.name,
                self.worker,
                self.now,
                self.until,
                msgspec.json.encode(lanes).decode(),
                unsettled,
                int(alone),
            ),
        )

    def lease_parked(self, id: bytes, *, alone: bool) -> Claim:
        """Lease one job from parked under a token of its own, with its attempt counted."""
        token = self.next_token()
        self.lease(token, lanes=(), unsettled=1, alone=alone)
        self.connection.execute(
            "update parked set token = ?, attempt = attempt + 1, rank_at = null where id = ?",
            (token, id),
        )
        statement = f"select {WHOLE_JOB}, attempt from parked where id = ?"
        row = self.connection.execute(statement, (id,)).fetchone()
        lease = Lease(
            token=token,
            queue=self.queue.name,
            lane=None,
            key=row[2],
            first=1,
            last=1,
            until=time_of(self.until),
            alone=alone,
        )
        job = LeasedJob(
            id=UUID(bytes=row[0]),
            queue=row[1],
            key=row[2],
            kind=row[3],
            payload=row[4],
            priority=row[5],
            round=row[6],
            attempts_max=row[7],
            timeout_seconds=row[8],
            enqueued_at=time_of(row[9]),
            position=1,
            attempt=row[10],
        )
        return Claim(lease=lease, jobs=[job])

"""Taking back leases that ran out: what was under them is run again, each job alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from inturn.model.job import AttemptError
from inturn.model.lease import Reclaimed
from inturn.policy.retry import crash_delay_seconds
from inturn.store.sqlite import dependents, lane_row, leases
from inturn.store.sqlite.dead import bury_head, bury_parked
from inturn.store.sqlite.lane_row import LaneRow
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queues import QueueRow, made_queue
from inturn.store.sqlite.rows import Micros, micros_of_seconds, rank, time_of, with_error
from inturn.store.sqlite.run import decode_ranges, missing


def reclaim(
    connection: sqlite3.Connection, now: Micros, *, leases_max: int, gone: Sequence[str]
) -> Reclaimed:
    """Take back leases that ran out, the oldest first.

    ``gone``: what workers hold whose process is one of these has run out.
    """
    if gone:
        connection.execute(
            "update lease set until = ?1 where until > ?1 and worker in ("
            "select id from worker where process in (select value from json_each(?2)))",
            (now, msgspec.json.encode(gone).decode()),
        )
    expired = connection.execute(
        "select token, queue, worker, lanes, alone from lease where until <= ? "
        "order by until, token limit ?",
        (now, leases_max),
    ).fetchall()
    suspects = buried = 0
    for token, queue, worker, lanes, alone in expired:
        lost = _Lost(connection, now, token, made_queue(connection, queue), worker)
        held = [lane_row.load(connection, lane) for lane in leases.lanes_under(lanes)]
        keyed = [lane for lane in held if lane is not None and lane.token == token]
        if alone:
            buried += sum(lost.count_crash(lane) for lane in keyed) + lost.count_parked_crash()
        else:
            suspects += sum(lost.suspect_lane(lane) for lane in keyed)
            suspects += lost.suspect_runs() + lost.suspect_parked()
        connection.execute("delete from lease where token = ?", (token,))
    dependents.recheck(connection, now)
    return Reclaimed(leases=len(expired), suspects=suspects, buried=buried)


class _Lost:
    """One lease that ran out."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        now: Micros,
        token: int,
        queue: QueueRow,
        worker: str,
    ) -> None:
        self._connection, self._now, self._token = connection, now, token
        self._queue, self._worker = queue, worker
        self._runs_again = queue.suspects == "again"

    def suspect_lane(self, lane: LaneRow) -> int:
        """Give back a keyed lane's run; return how many suspects. The attempt is uncounted.

        Each of its jobs is one; where suspects run again, those that were given back before.
        """
        last = lane.cursor - 1
        if self._runs_again:
            statement = "select reclaimed_last from lane where id = ?"
            [reclaimed] = self._connection.execute(statement, (lane.id,)).fetchone()
            last = min(last, reclaimed)
        self._connection.execute(
            "update lane set reclaimed_last = ? where id = ?", (lane.cursor - 1, lane.id)
        )
        count = max(0, last - lane.head + 1)
        lane.suspect_last = max(lane.suspect_last, last)
        lane.head_attempt = max(lane.head_attempt - 1, 0)
        lane.take_back(lane.head)
        lane_row.refresh(self._connection, self._queue, lane)
        return count

    def suspect_runs(self) -> int:
        """Park what is unsettled of open lanes' runs; return how many are suspects."""
        count = 0
        runs = self._connection.execute(
            "select lane, first, last, settled from run where token = ?", (self._token,)
        ).fetchall()
        for lane, first, last, settled in runs:
            for position in missing(decode_ranges(settled), first, last):
                self._park(lane, position)
                count += 1
        self._connection.execute("delete from run where token = ?", (self._token,))
        return 0 if self._runs_again else count

    def _park(self, lane: int, position: int) -> None:
        statement = "select priority from job where lane = ? and position = ?"
        [priority] = self._connection.execute(statement, (lane, position)).fetchone()
        rank_at = rank(self._now, priority, self._queue.aging_seconds)
        self._connection.execute(
            query("park_logged"),
            (self._now, 0, None, int(not self._runs_again), rank_at, lane, position),
        )
        self._connection.execute(
            "update parked set reclaimed = 1 "
            "where id = (select id from job where lane = ? and position = ?)",
            (lane, position),
        )

    def suspect_parked(self) -> int:
        """Give back a parked job; return 1 if it is a suspect. The attempt is uncounted."""
        changed = self._connection.execute(
            "update parked set token = null, suspect = (reclaimed or not ?4), reclaimed = 1, "
            "attempt = attempt - 1, run_at = ?1, "
            "rank_at = ?1 - cast(round(priority * ?2) as integer) where token = ?3 "
            "returning suspect",
            (self._now, self._queue.aging_seconds * 1_000_000, self._token, self._runs_again),
        )
        return sum(suspect for [suspect] in changed.fetchall())

    def count_crash(self, lane: LaneRow) -> int:
        """Count the crash against a keyed lane's lone head; return 1 if it is buried."""
        crashes = lane.head_crashes + 1
        errors = self._with_crash(lane.head_errors, lane.head_attempt)
        statement = "select attempts_max from job where lane = ? and position = ?"
        [attempts_max] = self._connection.execute(statement, (lane.id, lane.head)).fetchone()
        if lane.head_attempt >= attempts_max:
            bury_head(
                self._connection,
                self._now,
                self._queue,
                lane,
                position=lane.head,
                attempts=lane.head_attempt,
                errors=errors,
                reason=died(crashes),
            )
            return 1
        lane.head_crashes, lane.head_errors = crashes, errors
        lane.ready_at = self._now + micros_of_seconds(crash_delay_seconds(crashes))
        lane.take_back(lane.head)
        lane_row.refresh(self._connection, self._queue, lane)
        return 0

    def count_parked_crash(self) -> int:
        """Count the crash against a lone parked job; return 1 if it is buried."""
        row: tuple[Any, ...] | None = self._connection.execute(
            "select id, attempts_max, attempt, crashes, errors from parked where token = ?",
            (self._token,),
        ).fetchone()
        if row is None:
            return 0
        id, attempts_max, attempt, crashes, kept = row
        crashes += 1
        errors = self._with_crash(kept, attempt)
        if attempt >= attempts_max:
            bury_parked(self._connection, self._now, id, errors=errors, reason=died(crashes))
            return 1
        run_at = self._now + micros_of_seconds(crash_delay_seconds(crashes))
        self._connection.execute(
            "update parked set token = null, crashes = ?, errors = ?, run_at = ? where id = ?",
            (crashes, errors, run_at, id),
        )
        return 0

    def _with_crash(self, errors: str | None, attempt: int) -> str:
        error = f"worker {self._worker} died while running this job alone"
        at = time_of(self._now)
        return with_error(
            errors, AttemptError(attempt=attempt, at=at, worker=self._worker, error=error)
        )


def died(crashes: int) -> str:
    """Say why a job that killed its worker too often is dead."""
    often = "once" if crashes == 1 else f"{crashes} times"
    return f"its worker died {often} while running it alone"

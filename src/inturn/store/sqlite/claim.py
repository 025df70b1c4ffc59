"""Claiming: what is due takes its place, then parked jobs and runs are leased."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from inturn.model import bounds
from inturn.model.job import LeasedJob
from inturn.model.lease import Claim, Lease, Wish
from inturn.policy.limits import rate_window_seconds
from inturn.store.sqlite import dependents, lane_row
from inturn.store.sqlite.lane_row import LaneRow, append
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.queues import QueueRow, find_queue
from inturn.store.sqlite.rows import (
    SECOND,
    WHOLE_JOB,
    Micros,
    WholeJob,
    decoded,
    micros_of_seconds,
    rank,
    time_of,
)
from inturn.store.sqlite.run import Ranges, Run, encode_ranges, read_jobs, with_positions
from inturn.store.sqlite.waiters import woken

_RANK_LAST = 2**63 - 1


def claim(
    connection: sqlite3.Connection,
    now: Micros,
    wish: Wish,
    *,
    row: QueueRow | None = None,
    woken_before: int | None = None,
) -> tuple[list[Claim], int]:
    """Lease jobs of a queue; return also how often the queue was woken so far.

    ``row``: the queue's, if it was read before. ``woken_before``: how often before this
    transaction, which has settled jobs: if no place is left in a queue with limits, nobody need
    look for those that it freed.
    """
    row = row or find_queue(connection, wish.queue)
    if row is None or row.paused_at is not None:
        return [], woken(connection, wish.queue)
    dependents.recheck(connection, now)
    wake(connection, now, row)
    claimer = Claimer(
        connection=connection,
        queue=row,
        worker=wish.worker,
        now=now,
        until=now + micros_of_seconds(wish.lease_seconds),
        kinds=None if wish.kinds is None else msgspec.json.encode(sorted(wish.kinds)).decode(),
    )
    jobs_max = places = wish.jobs_max
    if row.is_limited:
        places = _places(connection, now, row)
        jobs_max = min(jobs_max, places)
    claims = _claim_suspects(claimer, min(wish.suspects_max, jobs_max))
    room = jobs_max - len(claims)
    if room:
        best = first_rank(claimer)
        ahead = claim_parked(claimer, room, rank_max=_RANK_LAST if best is None else best)
        room -= len(ahead)
        runs = claim_lanes(claimer, room) if best is not None and room else []
        room -= sum(len(run.jobs) for run in runs)
        behind = claim_parked(claimer, room, rank_max=_RANK_LAST) if room and runs else []
        claims += [*ahead, *runs, *behind]
    if row.is_limited:
        started = sum(len(one.jobs) for one in claims)
        _note_starts(connection, now, row, started)
        if started == places and woken_before is not None:
            statement = "update depth set woken = ? where queue = ?"
            connection.execute(statement, (woken_before, row.name))
    return claims, woken(connection, wish.queue)


def _claim_suspects(claimer: Claimer, jobs_max: int) -> list[Claim]:
    """Lease suspects by rank, each alone."""
    if not jobs_max:
        return []
    connection, choice = claimer.connection, claimer.choice(jobs_max)
    found = [
        *((rank, None, id) for id, rank in connection.execute(query("suspect_lanes"), choice)),
        *((rank, id, 0) for id, rank in connection.execute(query("suspect_parked"), choice)),
    ]
    found.sort(key=lambda suspect: suspect[0])
    claims = []
    for _, parked, lane in found[:jobs_max]:
        if parked is None:
            claims.append(claim_suspect_lane(claimer, lane))
        else:
            claims.append(claimer.lease_parked(parked, alone=True))
    return claims


def first_rank(claimer: Claimer) -> Micros | None:
    """Return the rank of the lane that would be claimed first, or nothing if there is none."""
    found = claimer.connection.execute(query("claimable_lanes") + " limit 1", claimer.choice(1))
    row = found.fetchone()
    return None if row is None else LaneRow(*row).rank_at


def claim_lanes(claimer: Claimer, jobs_max: int) -> list[Claim]:
    """Lease up to ``jobs_max`` jobs from lanes, in the order of claiming, under one token."""
    token = claimer.next_token()
    runs: dict[int, Run] = {}
    room = jobs_max
    # Once, unless an open lane's positions were cancelled and left room for more.
    while room and (found := _choose(claimer, room)):
        for run in found:
            _move_cursor(claimer, run, token)
        read_jobs(claimer.connection, found)
        _add(runs, found)
        room -= sum(len(run.jobs) for run in found)
    return _lease(claimer, list(runs.values()), token, alone=False) if runs else []


def claim_suspect_lane(claimer: Claimer, lane: int) -> Claim:
    """Lease the head of a keyed lane alone."""
    row = lane_row.load(claimer.connection, lane)
    assert row is not None
    run = Run(claimer.queue.name, row, row.cursor, row.cursor)
    token = claimer.next_token()
    _move_cursor(claimer, run, token)
    read_jobs(claimer.connection, [run])
    [claim] = _lease(claimer, [run], token, alone=True)
    return claim


def _add(runs: dict[int, Run], found: Iterable[Run]) -> None:
    """Add runs with jobs to a claim's; what a lane gives a second time makes its run longer."""
    for run in found:
        before = runs.get(run.lane.id)
        if before is not None:
            before.last = run.last
            before.jobs += run.jobs
        elif run.jobs:
            runs[run.lane.id] = run


def _choose(claimer: Claimer, room: int) -> list[Run]:
    """Return the next runs to lease: as many as fill the room, if nothing in them is cancelled."""
    connection = claimer.connection
    chosen = connection.execute(query("claimable_lanes"), claimer.choice(room))
    runs: list[Run] = []
    for columns in chosen:
        row = LaneRow(*columns)
        most = 1 if row.key is not None and claimer.queue.gives_one else room
        last = _run_end(connection, claimer.queue.gate, row, min(row.last, row.cursor + most - 1))
        runs.append(Run(claimer.queue.name, row, row.cursor, last))
        room -= last - row.cursor + 1
        if room <= 0:
            break
    chosen.close()
    return runs


def _run_end(connection: sqlite3.Connection, gate: int, lane: LaneRow, last: int) -> int:
    """Return where a run must end: in a keyed lane before a hole and before a round not open."""
    if lane.key is None or last == lane.cursor:
        return last
    stops: list[int | None] = [last + 1]
    statement = "select min(position) from cancelled where lane = ? and position between ? and ?"
    stops += connection.execute(statement, (lane.id, lane.cursor, last)).fetchone()
    if lane.last_round > gate:
        statement = (
            "select position from job where lane = ? and position between ? and ? and round > ? "
            "order by position limit 1"
        )
        stops += connection.execute(statement, (lane.id, lane.cursor, last, gate)).fetchone() or ()
    return min(stop for stop in stops if stop is not None) - 1


def _move_cursor(claimer: Claimer, run: Run, token: int) -> None:
    """Take a run's positions out of its lane; a keyed lane is closed until they are back."""
    lane = run.lane
    lane.cursor = run.last + 1
    if lane.key is not None:
        lane.head_attempt += 1
        lane.token = token
    lane_row.refresh(claimer.connection, claimer.queue, lane)


def _lease(claimer: Claimer, runs: Sequence[Run], token: int, *, alone: bool) -> list[Claim]:
    """Write one lease for runs and return a claim for each."""
    claimer.lease(
        token,
        lanes=[run.lane.id for run in runs if run.lane.key is not None],
        unsettled=sum(len(run.jobs) for run in runs),
        alone=alone,
    )
    claimer.connection.executemany(
        "insert into run (token, lane, first, last, settled) values (?, ?, ?, ?, ?)",
        [
            (token, run.lane.id, run.first, run.last, encode_ranges(_holes(run)))
            for run in runs
            if run.lane.key is None
        ],
    )
    return [_claim(claimer, run, token, alone) for run in runs]


def _holes(run: Run) -> Ranges:
    """Return the cancelled positions of an open lane's run: there is nothing to settle."""
    if len(run.jobs) == run.last - run.first + 1:
        return []
    present = {job.position for job in run.jobs}
    holes = [position for position in range(run.first, run.last + 1) if position not in present]
    return with_positions([], holes)


def _claim(claimer: Claimer, run: Run, token: int, alone: bool) -> Claim:
    lease = Lease(
        token=token,
        queue=run.queue,
        lane=run.lane.id,
        key=run.lane.key,
        first=run.first,
        last=run.last,
        until=time_of(claimer.until),
        alone=alone,
    )
    return Claim(lease=lease, jobs=run.jobs)


def claim_parked(claimer: Claimer, jobs_max: int, *, rank_max: Micros) -> list[Claim]:
    """Lease due parked jobs of a rank up to ``rank_max``, each under a token of its own."""
    arguments = {**claimer.choice(jobs_max), "rank_max": rank_max}
    due = claimer.connection.execute(query("claimable_parked"), arguments).fetchall()
    return [claimer.lease_parked(id, alone=False) for id, _ in due]


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
            "insert into lease (token, queue, worker, claimed_at, until, lanes, unsettled, alone, "
            "limited) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                token,
                self.queue.name,
                self.worker,
                self.now,
                self.until,
                msgspec.json.encode(lanes).decode(),
                unsettled,
                int(alone),
                self.queue.is_limited,
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
        statement = f"select {WHOLE_JOB}, 1, attempt from parked where id = ?"
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
        return Claim(lease=lease, jobs=[LeasedJob(*decoded(row))])


def wake(connection: sqlite3.Connection, now: Micros, queue: QueueRow) -> None:
    """Give what is due its place in line."""
    connection.execute(
        "update lane set ready_at = null, rank_at = iif(paused_at is null, "
        "waiting_since - cast(round(priority * ?) as integer), null) "
        "where queue = ? and ready_at <= ?",
        (queue.aging_seconds * SECOND, queue.name, now),
    )
    due = connection.execute(query("due_parked"), (queue.name, now, bounds.DUE_JOBS_MAX)).fetchall()
    if not due:
        return
    connection.executemany(
        "update parked set rank_at = ? where id = ?",
        [
            (rank(run_at, priority, queue.aging_seconds), id)
            for id, delayed, priority, run_at in due
            if not delayed
        ],
    )
    _move_due(connection, queue, [id for id, delayed, *_ in due if delayed])


def _move_due(connection: sqlite3.Connection, queue: QueueRow, delayed: list[bytes]) -> None:
    """Let delayed jobs join their lanes, in the order they became due."""
    whole = []
    for id in delayed:
        row = connection.execute(f"select {WHOLE_JOB} from parked where id = ?", (id,)).fetchone()
        whole.append(WholeJob(*row))
    connection.executemany("delete from parked where id = ?", [(id,) for id in delayed])
    append(connection, whole, {queue.name: queue})


def _places(connection: sqlite3.Connection, now: Micros, queue: QueueRow) -> int:
    """Return how many jobs of a queue with limits may start now."""
    left: list[int] = []
    if queue.running_max is not None:
        statement = "select coalesce(sum(unsettled), 0) from lease where queue = ? and limited"
        left.append(queue.running_max - connection.execute(statement, (queue.name,)).fetchone()[0])
    if queue.rate is not None and queue.rate_seconds is not None:
        since = now - micros_of_seconds(rate_window_seconds(queue.rate_seconds))
        left.append(queue.rate - queue.starts + _pass_starts(connection, queue.name, since))
    return max(0, min(left))


def _note_starts(connection: sqlite3.Connection, now: Micros, queue: QueueRow, jobs: int) -> None:
    """Note that jobs of a queue with a rate start now."""
    if queue.rate is not None and jobs:
        connection.execute(
            "insert into start (queue, started_at, jobs) values (?, ?, ?) "
            "on conflict (queue, started_at) do update set jobs = jobs + excluded.jobs",
            (queue.name, now, jobs),
        )
        connection.execute(
            "update queue set starts = starts + ? where name = ?", (jobs, queue.name)
        )


def _pass_starts(connection: sqlite3.Connection, queue: str, since: Micros) -> int:
    """Forget the starts that the window has passed; return how many they were."""
    passed = connection.execute(
        "delete from start where queue = ? and started_at <= ? returning jobs", (queue, since)
    ).fetchall()
    count: int = sum(jobs for [jobs] in passed)
    if count:
        connection.execute("update queue set starts = starts - ? where name = ?", (count, queue))
    return count

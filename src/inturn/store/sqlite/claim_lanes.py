"""Claiming runs of lanes: from a keyed lane its head and what follows, from an open lane any."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from inturn.model.lease import Claim, Lease
from inturn.store.sqlite import lane_row
from inturn.store.sqlite.claimer import Claimer
from inturn.store.sqlite.lane_row import LaneRow
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.run import Run, read_jobs
from inturn.store.sqlite.settled import Ranges, encode_ranges, with_positions
from inturn.store.sqlite.times import Micros, time_of


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
        last = _run_end(connection, claimer.queue.gate, row, min(row.last, row.cursor + room - 1))
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

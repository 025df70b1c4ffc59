"""Claiming runs of lanes: from a keyed lane its head and what follows, from an open lane any."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from uuid import UUID

import msgspec

from inturn.model.job import LeasedJob
from inturn.model.lease import Claim, Lease
from inturn.store.sqlite import lane_row
from inturn.store.sqlite.claimer import Claimer
from inturn.store.sqlite.lane_row import LaneRow
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.settled import Ranges, encode_ranges, with_positions
from inturn.store.sqlite.times import Micros, time_of

# The run's number, position, id, kind, priority, round, attempts_max, timeout_seconds, enqueued_at.
_Row = tuple[int, int, UUID, str, int, int, int, float | None, int]
_rows_decoder = msgspec.json.Decoder(list[_Row])
_ids_decoder = msgspec.json.Decoder(list[UUID])
_SEPARATOR = "\x1e"  # stands between payloads; a control character, so in no JSON text

# Payloads may have a megabyte each, and SQLite makes no text longer than a gigabyte.
_ROWS_TOGETHER = 500
_ALIKE_ROWS_MIN = 20  # a shorter run is read together with others


class Run(msgspec.Struct):
    """Positions of a lane that are about to be leased, and the jobs there."""

    lane: LaneRow
    first: int
    last: int
    rows: list[_Row] = []
    payloads: list[str] = []


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
        _read_jobs(claimer.connection, found)
        for run in found:
            _move_cursor(claimer, run, token)
        _add(runs, found)
        room -= sum(len(run.rows) for run in found)
    return _lease(claimer, list(runs.values()), token, alone=False) if runs else []


def claim_suspect_lane(claimer: Claimer, lane: int) -> Claim:
    """Lease the head of a keyed lane alone."""
    row = lane_row.load(claimer.connection, lane)
    assert row is not None
    run = Run(row, row.cursor, row.cursor)
    token = claimer.next_token()
    _read_jobs(claimer.connection, [run])
    _move_cursor(claimer, run, token)
    [claim] = _lease(claimer, [run], token, alone=True)
    return claim


def _add(runs: dict[int, Run], found: Iterable[Run]) -> None:
    """Add runs with jobs to a claim's; what a lane gives a second time makes its run longer."""
    for run in found:
        before = runs.get(run.lane.id)
        if before is not None:
            before.last = run.last
            before.rows += run.rows
            before.payloads += run.payloads
        elif run.rows:
            runs[run.lane.id] = run


def _choose(claimer: Claimer, room: int) -> list[Run]:
    """Return the next runs to lease: as many as fill the room, if nothing in them is cancelled."""
    connection = claimer.connection
    chosen = connection.execute(query("claimable_lanes"), claimer.choice(room))
    runs: list[Run] = []
    for columns in chosen:
        row = LaneRow(*columns)
        last = _run_end(connection, claimer.queue.gate, row, min(row.last, row.cursor + room - 1))
        runs.append(Run(row, row.cursor, last))
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


def _read_jobs(connection: sqlite3.Connection, runs: Sequence[Run]) -> None:
    """Read the jobs of runs, many with one statement."""
    pieces: list[tuple[Run, int, int]] = []
    for run in runs:
        run.rows, run.payloads = [], []
        ranges = [
            (first, min(run.last, first + _ROWS_TOGETHER - 1))
            for first in range(run.first, run.last + 1, _ROWS_TOGETHER)
        ]
        if run.last - run.first < _ALIKE_ROWS_MIN or not _read_alike(connection, run, ranges):
            run.rows, run.payloads = [], []
            pieces += [(run, first, last) for first, last in ranges]
    for together in _batches(pieces):
        wanted = [(run.lane.id, first, last) for run, first, last in together]
        statement = query("jobs_of_runs")
        asked = (msgspec.json.encode(wanted).decode(),)
        text, payloads = connection.execute(statement, asked).fetchone()
        rows = _rows_decoder.decode(text)
        for row, payload in zip(rows, (payloads or "").split(_SEPARATOR), strict=bool(rows)):
            run = together[row[0]][0]
            run.rows.append(row)
            run.payloads.append(payload)


def _read_alike(
    connection: sqlite3.Connection, run: Run, ranges: Iterable[tuple[int, int]]
) -> bool:
    """Read the jobs of a long run, if they are alike and none is missing; say whether."""
    for first, last in ranges:
        found = connection.execute(query("jobs_alike"), (run.lane.id, first, last)).fetchone()
        jobs, alike, ids, payloads, sinces, at_once, *shared = found
        if not alike or jobs != last - first + 1:
            return False
        ages: Iterable[int] = repeat(int(sinces.partition(",")[0]))
        if not at_once:
            ages = map(int, sinces.split(","))
        positions, known = range(first, last + 1), _ids_decoder.decode(f'["{ids}"]')
        run.rows += zip(repeat(0), positions, known, *map(repeat, shared), ages, strict=False)
        run.payloads += payloads.split(_SEPARATOR)
    return True


def _batches(pieces: Iterable[tuple[Run, int, int]]) -> list[list[tuple[Run, int, int]]]:
    batches: list[list[tuple[Run, int, int]]] = []
    room = 0
    for piece in pieces:
        length = piece[2] - piece[1] + 1
        if length > room:
            batches.append([])
            room = _ROWS_TOGETHER
        batches[-1].append(piece)
        room -= length
    return batches


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
        unsettled=sum(len(run.rows) for run in runs),
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
    if len(run.rows) == run.last - run.first + 1:
        return []
    present = {row[1] for row in run.rows}
    holes = [position for position in range(run.first, run.last + 1) if position not in present]
    return with_positions([], holes)


def _claim(claimer: Claimer, run: Run, token: int, alone: bool) -> Claim:
    lane = run.lane
    queue, key = claimer.queue.name, lane.key
    _, positions, ids, kinds, priorities, rounds, attempts_max, timeouts, sinces = zip(
        *run.rows, strict=True
    )
    times = {since: time_of(since) for since in set(sinces)}
    head_attempt = lane.head_attempt if key is not None and positions[0] == run.first else 1
    jobs = list(
        map(
            LeasedJob,
            ids,
            repeat(queue),
            repeat(key),
            kinds,
            run.payloads,
            priorities,
            rounds,
            attempts_max,
            timeouts,
            map(times.__getitem__, sinces),
            positions,
            chain((head_attempt,), repeat(1)),
        )
    )
    lease = Lease(
        token=token,
        queue=queue,
        lane=lane.id,
        key=key,
        first=run.first,
        last=run.last,
        until=time_of(claimer.until),
        alone=alone,
    )
    return Claim(lease=lease, jobs=jobs)

"""Runs of lanes: the jobs read into those about to be leased, and which positions are settled."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain, repeat
from uuid import UUID

import msgspec

from inturn.model.job import LeasedJob
from inturn.store.sqlite.lane_row import LaneRow
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.rows import time_of

# The run's number, position, id, kind, priority, round, attempts_max, timeout_seconds, enqueued_at.
_Row = tuple[int, int, UUID, str, int, int, int, float | None, int]
_rows_decoder = msgspec.json.Decoder(list[_Row])
_ids_decoder = msgspec.json.Decoder(list[UUID])
_SEPARATOR = "\x1e"  # stands between payloads; a control character, so in no JSON text

# Payloads may have a megabyte each, and SQLite makes no text longer than a gigabyte.
_ROWS_TOGETHER = 500
_ALIKE_ROWS_MIN = 20  # a shorter run is read together with others


class Run(msgspec.Struct):
    """Positions of a lane that are about to be leased, and the jobs there.

    Cancelled positions have none. The lane's row counts the attempt that the lease will make.
    """

    queue: str
    lane: LaneRow
    first: int
    last: int
    jobs: list[LeasedJob] = []

    def attempt_at(self, position: int) -> int:
        """Return which attempt this is at a position: only a keyed lane's head was tried before."""
        is_head = self.lane.key is not None and position == self.first
        return self.lane.head_attempt if is_head else 1


def read_jobs(connection: sqlite3.Connection, runs: Sequence[Run]) -> None:
    """Read the jobs of runs, many with one statement."""
    pieces: list[tuple[Run, int, int]] = []
    for run in runs:
        ranges = [
            (first, min(run.last, first + _ROWS_TOGETHER - 1))
            for first in range(run.first, run.last + 1, _ROWS_TOGETHER)
        ]
        if run.last - run.first < _ALIKE_ROWS_MIN or not _read_alike(connection, run, ranges):
            run.jobs = []
            pieces += [(run, first, last) for first, last in ranges]
    for together in _batches(pieces):
        _read_together(connection, together)


def _read_alike(
    connection: sqlite3.Connection, run: Run, ranges: Iterable[tuple[int, int]]
) -> bool:
    """Read the jobs of a long run, if they are alike and none is cancelled; say whether."""
    for first, last in ranges:
        found = connection.execute(query("jobs_alike"), (run.lane.id, first, last)).fetchone()
        jobs, alike, ids, payloads, sinces, at_once, *shared = found
        if not alike or jobs != last - first + 1:
            return False
        times: Iterable[datetime]
        if at_once:
            times = repeat(time_of(int(sinces.partition(",")[0])))
        else:
            times = map(time_of, map(int, sinces.split(",")))
        kind, *options = map(repeat, shared)
        run.jobs += map(
            LeasedJob,
            _ids_decoder.decode(f'["{ids}"]'),
            repeat(run.queue),
            repeat(run.lane.key),
            kind,
            payloads.split(_SEPARATOR),
            *options,
            times,
            range(first, last + 1),
            chain((run.attempt_at(first),), repeat(1)),
        )
    return True


def _read_together(connection: sqlite3.Connection, pieces: Sequence[tuple[Run, int, int]]) -> None:
    """Read the jobs of pieces of runs with one statement."""
    wanted = [(run.lane.id, first, last) for run, first, last in pieces]
    asked = (msgspec.json.encode(wanted).decode(),)
    text, payloads = connection.execute(query("jobs_of_runs"), asked).fetchone()
    rows = _rows_decoder.decode(text)
    times = {since: time_of(since) for since in {row[8] for row in rows}}
    for row, payload in zip(rows, (payloads or "").split(_SEPARATOR), strict=bool(rows)):
        number, position, id, kind, priority, round, attempts_max, timeout_seconds, since = row
        run = pieces[number][0]
        run.jobs.append(
            LeasedJob(
                id,
                run.queue,
                run.lane.key,
                kind,
                payload,
                priority,
                round,
                attempts_max,
                timeout_seconds,
                times[since],
                position,
                run.attempt_at(position),
            )
        )


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


Ranges = list[tuple[int, int]]

_decoder = msgspec.json.Decoder(Ranges)


def decode_ranges(kept: str) -> Ranges:
    """Return the ranges of a kept JSON list."""
    return _decoder.decode(kept)


def encode_ranges(ranges: Ranges) -> str:
    """Return ranges as they are kept."""
    return msgspec.json.encode(ranges).decode()


def with_positions(ranges: Ranges, positions: Sequence[int]) -> Ranges:
    """Return the ranges with more positions in them, given in order, none of them there before."""
    added: Ranges
    if positions and positions[-1] - positions[0] == len(positions) - 1:
        added = [(positions[0], positions[-1])]
    else:
        added = [(position, position) for position in positions]
    return _joined(sorted([*ranges, *added]))


def _joined(ranges: Ranges) -> Ranges:
    """Join ranges that touch."""
    joined: Ranges = []
    for first, last in ranges:
        if joined and joined[-1][1] + 1 == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def holds(ranges: Ranges, position: int) -> bool:
    """Say whether a position is in one of the ranges."""
    return any(first <= position <= last for first, last in ranges)


def missing(ranges: Ranges, first: int, last: int) -> list[int]:
    """Return the positions from first to last that are in none of the ranges."""
    settled = {position for low, high in ranges for position in range(low, high + 1)}
    return [position for position in range(first, last + 1) if position not in settled]

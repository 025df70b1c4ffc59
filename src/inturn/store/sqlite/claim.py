"""Claiming: leases on suspects, on due parked jobs, and on runs of lanes."""

from __future__ import annotations

import sqlite3

import msgspec

from inturn.model.lease import Claim, Wish
from inturn.store.sqlite import dependents, queue_row
from inturn.store.sqlite.claim_lanes import claim_lanes, claim_suspect_lane, first_rank
from inturn.store.sqlite.claim_parked import claim_parked
from inturn.store.sqlite.claimer import Claimer
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.times import Micros, micros_of_seconds
from inturn.store.sqlite.waiters import woken
from inturn.store.sqlite.wake import wake

_RANK_LAST = 2**63 - 1


def claim(connection: sqlite3.Connection, now: Micros, wish: Wish) -> tuple[list[Claim], int]:
    """Lease jobs of a queue; return also how often the queue was woken so far."""
    row = queue_row.find(connection, wish.queue)
    if row is None or row.paused_at is not None:
        return [], woken(connection, wish.queue)
    dependents.admit_rest(connection)
    wake(connection, now, row)
    claimer = Claimer(
        connection=connection,
        queue=row,
        worker=wish.worker,
        now=now,
        until=now + micros_of_seconds(wish.lease_seconds),
        kinds=None if wish.kinds is None else msgspec.json.encode(sorted(wish.kinds)).decode(),
    )
    claims = _claim_suspects(claimer, min(wish.suspects_max, wish.jobs_max))
    room = wish.jobs_max - len(claims)
    if room:
        best = first_rank(claimer)
        ahead = claim_parked(claimer, room, rank_max=_RANK_LAST if best is None else best)
        room -= len(ahead)
        runs = claim_lanes(claimer, room) if best is not None and room else []
        room -= sum(len(run.jobs) for run in runs)
        behind = claim_parked(claimer, room, rank_max=_RANK_LAST) if room and runs else []
        claims += [*ahead, *runs, *behind]
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

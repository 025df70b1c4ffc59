"""Claiming due jobs that wait by themselves."""

from __future__ import annotations

from inturn.model.lease import Claim
from inturn.store.sqlite.claimer import Claimer
from inturn.store.sqlite.queries import query
from inturn.store.sqlite.times import Micros


def claim_parked(claimer: Claimer, jobs_max: int, *, rank_max: Micros) -> list[Claim]:
    """Lease due parked jobs of a rank up to ``rank_max``, each under a token of its own."""
    arguments = {**claimer.choice(jobs_max), "rank_max": rank_max}
    due = claimer.connection.execute(query("claimable_parked"), arguments).fetchall()
    return [claimer.lease_parked(id, alone=False) for id, _ in due]

"""Stores that do not keep to their leases: who holds which, who may settle, who is a suspect."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from inturn.model.errors import LeaseLost
from inturn.model.lease import Claim, Lease, Reclaimed
from inturn.policy.settlement import Outcome, Settlement
from inturn.store.store import Store
from tests.simulation.broken.store import Broken, SpoilsClaims


class RemembersClaims(Broken):
    """Knows who got each job last."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.latest: dict[UUID, Claim] = {}

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        claims = await self.store.claim(queue, **options)
        for claim in claims:
            for job in claim.jobs:
                self.latest[job.id] = claim
        return claims


class SettlesWithoutFence(RemembersClaims):
    """Settles by job and not by lease: a worker that lost its lease settles its successor's."""

    checker = "fencing"

    async def settle(self, settlements: Sequence[Settlement], *, worker: str) -> None:
        try:
            await self.store.settle(settlements, worker=worker)
        except LeaseLost:
            turned = [(one, self._under_its_lease(one)) for one in settlements]
            stolen = [await self._settles(new, worker) for old, new in turned if old != new]
            if not any(stolen):
                raise
            for old, new in turned:
                if old == new:
                    await self._settles(old, worker)

    async def _settles(self, settlement: Settlement, worker: str) -> bool:
        with suppress(LeaseLost):
            await self.store.settle([settlement], worker=worker)
            return True
        return False

    def _under_its_lease(self, settlement: Settlement) -> Settlement:
        claim = self.latest[settlement.outcomes[0].job.id]
        if claim.lease.token == settlement.lease.token:
            return settlement
        places = {job.id: job for job in claim.jobs}
        outcomes = [
            Outcome(places[outcome.job.id], outcome.verdict)
            for outcome in settlement.outcomes
            if outcome.job.id in places
        ]
        return Settlement(claim.lease, outcomes)


class RefusesItsHolder(Broken):
    """Loses every lease that is settled in two goes."""

    checker = "fencing"

    async def settle(self, settlements: Sequence[Settlement], *, worker: str) -> None:
        for settlement in settlements:
            if settlement.outcomes[0].job.position > settlement.lease.first:
                raise LeaseLost([settlement.lease.token])
        await self.store.settle(settlements, worker=worker)


class ExtendsNothing(Broken):
    """Says that leases were prolonged, and lets them run out."""

    checker = "leases"

    async def extend(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Lease]:
        return await self.store.extend(leases, lease_seconds=0.001)


class ReclaimsLate(Broken):
    """Leaves leases that ran out where they are."""

    checker = "leases"

    async def reclaim(self, *, leases_max: int = 100) -> Reclaimed:
        return Reclaimed()


class LeasesSuspectsInCompany(SpoilsClaims):
    """Forgets who was there when a worker died."""

    checker = "suspects"
    statements = ("update parked set suspect = 0", "update lane set suspect_last = 0")


class ChargesBystanders(Broken):
    """Counts a crash in company as an attempt."""

    checker = "suspects"

    async def reclaim(self, *, leases_max: int = 100) -> Reclaimed:
        reclaimed = await self.store.reclaim(leases_max=leases_max)
        await self.sql(
            "update parked set attempt = 1 where suspect and token is null and attempt = 0",
            "update lane set head_attempt = 1 where suspect_last >= head and token is null "
            "and head_attempt = 0 and active",
        )
        return reclaimed

"""Stores that do not keep to their leases: who holds which, who may settle, who is a suspect."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import msgspec

from inturn.model.errors import LeaseLost
from inturn.model.lease import Claim, Lease, Reclaimed
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done
from inturn.store.store import Store
from tests.simulation.broken.store import Broken, SpoilsClaims


class TakesDoneTwice(Broken):
    """Says yes when a worker says once more that its jobs are done."""

    checker = "duplicates"

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._done: set[tuple[int, UUID]] = set()

    async def settle(self, settlements: Sequence[Settlement], *, worker: str) -> None:
        said = {
            (settlement.lease.token, outcome.job.id)
            for settlement in settlements
            for outcome in settlement.outcomes
        }
        if said <= self._done:
            return
        await self.store.settle(settlements, worker=worker)
        self._done |= {
            (settlement.lease.token, outcome.job.id)
            for settlement in settlements
            for outcome in settlement.outcomes
            if isinstance(outcome.verdict, Done)
        }


class ForgetsWhatATurnSettles(Broken):
    """Takes a turn for a claim, as if what came with it had been settled before."""

    checker, seed = "leases", 2

    async def turn(
        self, settlements: Sequence[Settlement], queue: str, **options: Any
    ) -> list[Claim]:
        return await self.store.turn([], queue, **options)


class ClaimsInARefusedTurn(Broken):
    """Claims although what was to be settled is refused, and tells nobody."""

    checker, seed = "leases", 5

    async def turn(
        self, settlements: Sequence[Settlement], queue: str, **options: Any
    ) -> list[Claim]:
        try:
            return await self.store.turn(settlements, queue, **options)
        except LeaseLost:
            await self.store.claim(queue, **options)
            raise


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


class CountsTokensDown(Broken):
    """Gives out tokens that go down."""

    checker = "fencing"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        claims = await self.store.claim(queue, **options)
        return [Claim(lease=self._turned(claim.lease), jobs=claim.jobs) for claim in claims]

    async def settle(self, settlements: Sequence[Settlement], *, worker: str) -> None:
        inner = [Settlement(self._turned(one.lease), one.outcomes) for one in settlements]
        try:
            await self.store.settle(inner, worker=worker)
        except LeaseLost as error:
            raise LeaseLost([1_000_000 - token for token in error.tokens]) from error

    async def extend(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Lease]:
        inner = [self._turned(lease) for lease in leases]
        lost = await self.store.extend(inner, lease_seconds=lease_seconds)
        return [self._turned(lease) for lease in lost]

    def _turned(self, lease: Lease) -> Lease:
        return msgspec.structs.replace(lease, token=1_000_000 - lease.token)


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


class ForgetsAttempts(SpoilsClaims):
    """Counts no failed attempt."""

    checker = "attempts"
    statements = (
        "update parked set attempt = 0 where token is null",
        "update lane set head_attempt = 0 where token is null",
    )


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


class BuriesBystanders(Broken):
    """Buries what was under a lost lease together with the job that killed the worker."""

    checker = "suspects"

    async def jobs(self, **options: Any) -> Any:
        """Do it at the last moment, before those who wait for the dead do not come to their end."""
        queues = await self.sql(
            "select distinct queue from parked "
            "where suspect and attempt = 0 and rank_at is not null and round = 0"
        )
        for (queue,) in queues:
            for claim in await self.store.claim(queue, jobs_max=1, worker="gravedigger"):
                settlement = Settlement.release(claim)
                if claim.lease.alone and claim.lease.key is None and claim.jobs[0].attempt == 1:
                    outcomes = [Outcome(job, Bury("its worker died")) for job in claim.jobs]
                    settlement = Settlement(claim.lease, outcomes)
                await self.store.settle([settlement], worker="gravedigger")
        return await self.store.jobs(**options)

"""Stores that spoil what was accepted: they lose it, keep half of it, or keep it otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from inturn.model.errors import InturnError
from inturn.model.job import NewJob, Ticket
from tests.simulation.broken.store import Broken


class LosesJobs(Broken):
    """Acknowledges a job without key and does not store it."""

    checker = "loss"

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        kept = [job for job in jobs if not self._is_lost(job, jobs)]
        tickets = {ticket.id: ticket for ticket in await self.store.enqueue(kept)}
        if any(ticket.duplicate for ticket in tickets.values()):
            return await self.store.enqueue(jobs)
        return [tickets.get(job.id, Ticket(id=job.id)) for job in jobs]

    def _is_lost(self, job: NewJob, jobs: Sequence[NewJob]) -> bool:
        plain = job.key is None and job.dedupe is None and not job.waits_for() and not job.round
        return plain and not any(job.id in other.waits_for() for other in jobs)


class GivesOneAttemptMore(Broken):
    """Retries a job once more when its attempts are spent."""

    checker = "attempts"

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        more = [msgspec.structs.replace(job, attempts_max=job.attempts_max + 1) for job in jobs]
        return await self.store.enqueue(more)


class IgnoresAfter(Broken):
    """Accepts a job that is to wait for others as one that waits for none."""

    checker = "dependencies"

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        await self.store.enqueue([])
        return await self.store.enqueue(
            [msgspec.structs.replace(job, after=frozenset()) for job in jobs]
        )


class ForgetsDedupe(Broken):
    """Accepts a dedupe key again while its window lasts."""

    checker = "dedupe"

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        await self.sql("delete from dedupe")
        return await self.store.enqueue(jobs)


class KeepsHalfABatch(Broken):
    """Keeps the good jobs of a batch that it refuses."""

    checker = "batches"

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        try:
            return await self.store.enqueue(jobs)
        except InturnError:
            for job in jobs:
                if not job.waits_for() and job.dedupe is None and job.payload != "NaN" and job.kind:
                    await self.store.enqueue([msgspec.structs.replace(job, priority=0)])
            raise


class RetriesDeadLettersTwice(Broken):
    """Says that a dead letter was put back whenever it is asked."""

    checker = "dead_letters"

    async def dead_retry(self, jobs: Sequence[UUID]) -> list[UUID]:
        await self.store.dead_retry(jobs)
        return list(jobs)


class StrandsLanes(Broken):
    """Leaves lanes with jobs inactive, just when it is asked whether all is well."""

    checker = "tables"

    async def check(self) -> list[str]:
        await self.sql("update lane set active = 0, rank_at = null where rank_at is not null")
        return await self.store.check()

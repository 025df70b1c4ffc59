"""Stores that break one promise each, on purpose: a checker that has never failed proves nothing.

Each wraps a real SQLite store and spoils a verb, or spoils the tables behind the store's back.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast
from uuid import UUID

import msgspec

from inturn.model.errors import InturnError, LeaseLost
from inturn.model.job import NewJob, Ticket
from inturn.model.lane import Gate, QueueSettings
from inturn.model.lease import Claim, Lease, Reclaimed
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Bury, Done
from inturn.store.protocol import Store


class Broken:
    """A store that keeps its promises, all but one. This one keeps them all."""

    checker = ""  # who must say so

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def turn(
        self, settlements: Sequence[Settlement], queue: str, **options: Any
    ) -> list[Claim]:
        """What settle or claim spoils is spoilt in a turn, too."""
        await self.settle(settlements, worker=options["worker"])
        claims: list[Claim] = await self.claim(queue, **options)
        return claims

    async def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements behind the store's back; return the rows of the last."""
        rows: list[tuple[Any, ...]] = []
        async with self.store.transaction() as transaction:
            for statement in statements:
                rows = await transaction.execute(statement)
        return rows


class SpoilsClaims(Broken):
    """Runs statements before every claim."""

    statements: tuple[str, ...] = ()

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        await self.sql(*self.statements)
        return await self.store.claim(queue, **options)


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
        plain = job.key is None and job.dedupe is None and not job.after and not job.round
        return plain and not any(job.id in other.after for other in jobs)


class LosesDeadLetters(Broken):
    """Prunes dead letters together with what is done."""

    checker = "loss"

    async def prune(self) -> Any:
        await self.sql(
            "delete from dead where id not in (select halted_job from lane where halted_at > 0) "
            "and id not in (select on_job from waits)"
        )
        return await self.store.prune()


class ForgetsTooEarly(Broken):
    """Keeps done jobs no longer than to the next prune, whatever the queue's settings."""

    checker = "loss"

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        await self.store.configure(queue, msgspec.structs.replace(settings, keep_done_seconds=0.0))


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

    checker = "leases"

    async def turn(
        self, settlements: Sequence[Settlement], queue: str, **options: Any
    ) -> list[Claim]:
        return await self.store.turn([], queue, **options)


class ClaimsInARefusedTurn(Broken):
    """Claims although what was to be settled is refused, and tells nobody."""

    checker = "leases"

    async def turn(
        self, settlements: Sequence[Settlement], queue: str, **options: Any
    ) -> list[Claim]:
        try:
            return await self.store.turn(settlements, queue, **options)
        except LeaseLost:
            await self.store.claim(queue, **options)
            raise


class RunsDoneJobsAgain(SpoilsClaims):
    """Moves the cursor of a drained open lane back over a job that was done."""

    checker = "duplicates"
    statements = (
        "update lane set cursor = cursor - 1, active = 1, rank_at = 1, waiting_since = 1 "
        "where key is null and not active and cursor > 1 "
        "and id not in (select lane from run) and exists (select 1 from job "
        "where lane = lane.id and position = lane.cursor - 1 "
        "and id not in (select id from parked union select id from dead "
        "union select id from cancelled))",
    )


class ReversesRuns(Broken):
    """Gives the jobs of a keyed lane's run in the wrong order."""

    checker = "order"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        claims = await self.store.claim(queue, **options)
        return [
            msgspec.structs.replace(claim, jobs=list(reversed(claim.jobs)))
            if claim.lease.key is not None
            else claim
            for claim in claims
        ]


class SwapsPlaces(SpoilsClaims):
    """Lets the second job of a keyed lane change places with the first."""

    checker = "order"
    statements = (
        "create temp table if not exists swapped (lane integer, a integer, b integer)",
        "delete from swapped",
        "insert into swapped select lane.id, cursor, cursor + 1 from lane join tail on "
        "tail.lane = lane.id where key is not null and token is null and halted_at is null "
        "and head_attempt = 0 and suspect_last < head and tail.last = cursor + 1 "
        "and lane.id not in (select lane from cancelled where lane is not null) "
        "and (select count(distinct kind || ' ' || round || ' ' || enqueued_at || ' ' || priority) "
        "from job where lane = lane.id and position >= cursor) = 1",
        "update job set position = 1000000 where (lane, position) in (select lane, a from swapped)",
        "update job set position = position - 1 "
        "where (lane, position) in (select lane, b from swapped)",
        "update job set position = (select b from swapped where lane = job.lane) "
        "where position = 1000000",
    )


class LeasesLanesTwice(Broken):
    """Lets a keyed lane be claimed while a worker has its head."""

    checker = "order"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        opened = await self.sql(
            "select lane.id, head, token, kind, priority, lane.round from lane "
            "join tail on tail.lane = lane.id "
            f"where queue = '{queue}' and token is not null and tail.last >= cursor "
            "and suspect_last < head and paused_at is null and exists (select 1 from job "
            "where lane = lane.id and position = lane.cursor and round = 0 and kind = lane.kind "
            "and id not in (select id from cancelled))"
        )
        for lane, *_ in opened:
            await self.sql(
                "update lane set token = null, head = cursor, head_attempt = 0, head_errors = null,"
                f"rank_at = waiting_since, round = 0 where id = {lane}"
            )
        claims = await self.store.claim(queue, **options)
        for lane, head, token, kind, priority, round in opened:
            await self.sql(
                f"update lane set token = {token}, head = {head}, rank_at = null, "
                f"head_attempt = 1, kind = '{kind}', priority = {priority}, round = {round} "
                f"where id = {lane} and token is null"
            )
        return claims


class IgnoresHalts(Broken):
    """Goes on behind the dead letter that a lane is halted on."""

    checker = "halts"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        halted = await self.sql(
            "select id, head, halted_at, hex(halted_job) from lane "
            f"where queue = '{queue}' and halted_at is not null and paused_at is null "
            "and exists (select 1 from job where lane = lane.id and position = lane.head + 1 "
            "and round = 0 and kind = lane.kind and id not in (select id from cancelled))"
        )
        for lane, head, *_ in halted:
            await self.sql(
                f"update lane set head = {head + 1}, cursor = {head + 1}, halted_at = null, "
                f"halted_job = null, rank_at = 1 where id = {lane}"
            )
        claims = await self.store.claim(queue, **options)
        for lane, head, halted_at, job in halted:
            await self.sql(
                f"update lane set head = {head}, cursor = {head}, halted_at = {halted_at}, "
                f"halted_job = x'{job}', rank_at = null where id = {lane} and token is null"
            )
        return claims


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


class GivesOneAttemptMore(Broken):
    """Retries a job once more when its attempts are spent."""

    checker = "attempts"

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        more = [msgspec.structs.replace(job, attempts_max=job.attempts_max + 1) for job in jobs]
        return await self.store.enqueue(more)


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


class IgnoresAfter(Broken):
    """Accepts a job that is to wait for others as one that waits for none."""

    checker = "dependencies"

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        await self.store.enqueue([])
        return await self.store.enqueue(
            [msgspec.structs.replace(job, after=frozenset()) for job in jobs]
        )


class WaitsForOneOnly(Broken):
    """Lets a job in when the first of those it waits for is done."""

    checker = "dependencies"

    async def settle(self, settlements: Sequence[Settlement], *, worker: str) -> None:
        await self.sql(
            "delete from waits where exists (select 1 from waits as other "
            "where other.job = waits.job and other.on_job < waits.on_job)"
        )
        await self.store.settle(settlements, worker=worker)


class IgnoresGates(Broken):
    """Claims from rounds that are not open."""

    checker = "gates"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        [(gate,)] = await self.sql(f"select gate from queue where name = '{queue}'")
        await self.sql(f"update queue set gate = 9 where name = '{queue}'")
        claims = await self.store.claim(queue, **options)
        await self.sql(f"update queue set gate = {gate} where name = '{queue}'")
        return claims


class AdvancesTooEarly(Broken):
    """Opens the next round without looking whether this one is complete."""

    checker = "gates"

    async def advance_gate(self, queue: str) -> Gate:
        [(gate,)] = await self.sql(f"select gate from queue where name = '{queue}'")
        round = await self.store.open_gate(queue, gate + 1)
        return Gate(round=round, advanced=True, unfinished=0, exhausted=False)


class ClaimsBeforeDue(Broken):
    """Claims what is delayed and what waits to retry, whether or not it is due."""

    checker = "backoff"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        await self.sql(
            "update parked set run_at = 1 where token is null and rank_at is null",
            "update lane set ready_at = 1 where ready_at is not null",
        )
        return await self.store.claim(queue, **options)


class ForgetsDedupe(Broken):
    """Accepts a dedupe key again while its window lasts."""

    checker = "dedupe"

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        await self.sql("delete from dedupe")
        return await self.store.enqueue(jobs)


class NeverForgetsDedupe(Broken):
    """Takes a dedupe key as used when its window is over."""

    checker = "dedupe"

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        await self.sql("update dedupe set until = 9000000000000000")
        return await self.store.enqueue(jobs)


class StarvesTheOld(Broken):
    """Claims the newest and least urgent first."""

    checker = "priority"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        await self.sql("update lane set rank_at = -rank_at")
        claims = await self.store.claim(queue, **options)
        await self.sql("update lane set rank_at = -rank_at where rank_at < 0")
        return claims


class IgnoresPauses(Broken):
    """Says that it holds a queue or a lane, and does not."""

    checker = "pauses"

    async def pause(self, queue: str, *, key: str | None = None, by: str) -> None:
        if key is not None:
            await self.store.resume(queue, key=key)


class IgnoresKinds(Broken):
    """Gives a worker whatever there is."""

    checker = "kinds"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        return await self.store.claim(queue, **(options | {"kinds": None}))


class GivesTooMuch(Broken):
    """Gives one job more than was asked for."""

    checker = "sizes"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        more = {"jobs_max": options["jobs_max"] + 1}
        return await self.store.claim(queue, **(options | more))


class KeepsHalfABatch(Broken):
    """Keeps the good jobs of a batch that it refuses."""

    checker = "batches"

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Ticket]:
        try:
            return await self.store.enqueue(jobs)
        except InturnError:
            for job in jobs:
                if not job.after and job.dedupe is None and job.payload != "NaN" and job.kind:
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


class NeverGetsToA(Broken):
    """Never gives anyone a job of lane 'a'."""

    checker = "finish"

    async def claim(self, queue: str, **options: Any) -> list[Claim]:
        claims = await self.store.claim(queue, **options)
        hidden = [claim for claim in claims if claim.lease.key == "a"]
        for claim in hidden:
            await self.store.settle([Settlement.release(claim)], worker="nobody")
        return [claim for claim in claims if claim not in hidden]


def every_broken_store() -> list[type[Broken]]:
    """Return all that name the checker who must notice."""
    found: list[type[Broken]] = []
    kinds = [Broken]
    while kinds:
        kind = kinds.pop(0)
        kinds += kind.__subclasses__()
        if kind.checker:
            found.append(kind)
    return found


def as_store(broken: Broken) -> Store:
    return cast(Store, broken)

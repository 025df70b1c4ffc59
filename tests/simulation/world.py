"""A simulated world: one store, a clock moved by hand, workers, and every verb written down."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from inturn.model.clock import ManualClock
from inturn.model.errors import InturnError, LeaseLost, NotHalted, UnknownJob, UnknownLane
from inturn.model.job import JobView, NewJob
from inturn.model.lane import QueueSettings
from inturn.model.lease import Claim, Lease, Reclaimed
from inturn.policy.settlement import Settlement
from inturn.store.change import Change
from inturn.store.store import Store
from tests.simulation import history
from tests.simulation.checker import Checker
from tests.simulation.history import Event
from tests.simulation.ledger import Ledger


class RolledBack(Exception):
    """A producer changed its mind in the middle of a transaction."""


@dataclass
class Worker:
    """A worker's memory: what it believes to hold."""

    name: str
    held: list[Claim] = field(default_factory=list)
    sent: list[Settlement] = field(default_factory=list)  # what it last settled


@dataclass(kw_only=True)
class Wish:
    """What a worker asks for."""

    queue: str
    jobs_max: int
    suspects_max: int = 1
    kinds: Collection[str] | None = None
    lease_seconds: float = 30.0

    def options(self, worker: Worker) -> dict[str, Any]:
        """Return it as the store's verbs take it."""
        return {**vars(self), "worker": worker.name}


@dataclass
class World:
    """Everything an actor can see and do. Each verb calls the store and records its answer."""

    store: Store
    clock: ManualClock
    random: Random
    workers: list[Worker]
    checker: Checker = field(default_factory=Checker)
    history: list[Event] = field(default_factory=list)
    made: int = 0

    @property
    def ledger(self) -> Ledger:
        return self.checker.ledger

    def record(self, event: Event) -> None:
        self.history.append(event)
        self.checker.observe(event)

    def new_id(self) -> UUID:
        """Return an id that depends on the seed alone, each larger than the one before."""
        self.made += 1
        stamp = 1_700_000_000_000 + self.made
        low = self.random.getrandbits(62)
        return UUID(int=(stamp << 80) | (0x7 << 76) | (0x2 << 62) | low)

    # Producers

    async def enqueue(self, jobs: Sequence[NewJob]) -> None:
        at = self.clock.now()
        try:
            tickets = await self.store.enqueue(jobs)
        except InturnError as error:
            self.record(history.Refused(at=at, jobs=jobs, error=error))
        else:
            self.record(history.Accepted(at=at, jobs=jobs, tickets=tickets))

    # Workers

    async def claim(self, worker: Worker, wish: Wish) -> list[Claim]:
        claims = await self.store.claim(**wish.options(worker))
        self.claimed(worker, wish, claims)
        return claims

    async def turn(self, worker: Worker, settlements: Sequence[Settlement], wish: Wish) -> None:
        """Settle and claim in one turn: the claim sees what was settled, or nothing happens."""
        try:
            claims = await self.store.turn(settlements, **wish.options(worker))
        except LeaseLost as error:
            self.settle_refused(worker, settlements, error)
        else:
            self.settled(worker, settlements)
            self.claimed(worker, wish, claims)

    def claimed(self, worker: Worker, wish: Wish, claims: Sequence[Claim]) -> None:
        self.record(
            history.Claimed(
                at=self.clock.now(),
                queue=wish.queue,
                worker=worker.name,
                jobs_max=wish.jobs_max,
                suspects_max=wish.suspects_max,
                kinds=wish.kinds,
                claims=claims,
            )
        )
        worker.held += claims

    async def settle(self, worker: Worker, settlements: Sequence[Settlement]) -> None:
        try:
            await self.store.settle(settlements, worker=worker.name)
        except LeaseLost as error:
            self.settle_refused(worker, settlements, error)
        else:
            self.settled(worker, settlements)

    async def settle_and_enqueue(
        self,
        worker: Worker,
        settlements: Sequence[Settlement],
        jobs: Sequence[NewJob],
        *,
        is_change: bool,
        rolls_back: bool,
    ) -> None:
        """Settle and enqueue in one transaction, or as one change: both happen, or neither."""
        at = self.clock.now()
        change = Change(settle=settlements, worker=worker.name, enqueue=jobs)
        try:
            if is_change and not rolls_back:
                tickets = await self.store.apply(change)
            else:
                async with self.store.transaction() as transaction:
                    if is_change:
                        tickets = await transaction.apply(change)
                    else:
                        await transaction.settle(settlements, worker=worker.name)
                        tickets = await transaction.enqueue(jobs)
                    if rolls_back:
                        raise RolledBack
        except (InturnError, RolledBack) as error:
            refused = error if isinstance(error, InturnError) else None
            if isinstance(error, LeaseLost):
                self.settle_refused(worker, settlements, error)
                refused = None
            settled = frozenset(one.job.id for part in settlements for one in part.outcomes)
            self.record(history.Refused(at=at, jobs=jobs, error=refused, settled=settled))
        else:
            self.settled(worker, settlements)
            self.record(history.Accepted(at=at, jobs=jobs, tickets=tickets))

    def settled(self, worker: Worker, settlements: Sequence[Settlement]) -> None:
        worker.sent = list(settlements)
        event = history.Settled(
            at=self.clock.now(), worker=worker.name, settlements=list(settlements)
        )
        self.record(event)
        for settlement in settlements:
            forget(worker, settlement)

    def settle_refused(
        self, worker: Worker, settlements: Sequence[Settlement], error: LeaseLost
    ) -> None:
        self.record(
            history.SettleRefused(
                at=self.clock.now(), worker=worker.name, settlements=list(settlements)
            )
        )
        worker.held = [one for one in worker.held if one.lease.token not in error.tokens]

    async def extend(self, worker: Worker, lease_seconds: float) -> None:
        leases: list[Lease] = [claim.lease for claim in worker.held]
        lost = await self.store.extend(leases, lease_seconds=lease_seconds)
        self.record(
            history.Extended(
                at=self.clock.now(), leases=leases, lost=lost, lease_seconds=lease_seconds
            )
        )
        worker.held = [claim for claim in worker.held if claim.lease not in lost]

    def crash(self, worker: Worker) -> None:
        worker.held.clear()
        worker.sent.clear()
        self.record(history.Crashed(at=self.clock.now(), worker=worker.name))

    async def reclaim(self, leases_max: int = 100) -> None:
        """Reclaim until nothing is left that has run out."""
        leases = suspects = buried = 0
        while (found := await self.store.reclaim(leases_max=leases_max)).leases:
            leases += found.leases
            suspects += found.suspects
            buried += found.buried
        total = Reclaimed(leases=leases, suspects=suspects, buried=buried)
        self.record(history.TakenBack(at=self.clock.now(), reclaimed=total))

    # Operators

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        await self.store.configure(queue, settings)
        self.record(history.Configured(at=self.clock.now(), queue=queue, settings=settings))

    async def cancel(self, job: UUID) -> None:
        try:
            state = await self.store.cancel(job, by="ann")
        except UnknownJob:
            state = None
        self.record(history.Cancelled(at=self.clock.now(), job=job, state=state))

    async def dead_retry(self, jobs: Sequence[UUID]) -> None:
        put_back = await self.store.dead_retry(jobs)
        self.record(history.DeadRetried(at=self.clock.now(), asked=jobs, put_back=put_back))

    async def dead_drop(self, jobs: Sequence[UUID]) -> None:
        dropped = await self.store.dead_drop(jobs, by="ann")
        self.record(history.DeadDropped(at=self.clock.now(), asked=jobs, dropped=dropped))

    async def decide_lane(self, queue: str, key: str, decision: str) -> None:
        job: UUID | None
        try:
            if decision == "retry":
                job = await self.store.retry_lane(queue, key)
            elif decision == "skip":
                job = await self.store.skip_lane(queue, key)
            else:
                job = await self.store.drop_lane(queue, key, by="ann")
        except (NotHalted, UnknownLane):
            job = None
        at = self.clock.now()
        self.record(history.LaneDecided(at=at, queue=queue, key=key, decision=decision, job=job))

    async def pause(self, queue: str, key: str | None) -> None:
        try:
            await self.store.pause(queue, key=key, by="ann")
        except UnknownLane:
            return
        self.record(history.Held(at=self.clock.now(), queue=queue, key=key, paused=True))

    async def resume(self, queue: str, key: str | None) -> None:
        await self.store.resume(queue, key=key)
        self.record(history.Held(at=self.clock.now(), queue=queue, key=key, paused=False))

    async def open_gate(self, queue: str, round: int) -> None:
        opened = await self.store.open_gate(queue, round)
        self.record(history.GateOpened(at=self.clock.now(), queue=queue, round=opened))

    async def advance_gate(self, queue: str) -> None:
        gate = await self.store.advance_gate(queue)
        self.record(history.GateAdvanced(at=self.clock.now(), queue=queue, gate=gate))

    async def prune(self) -> None:
        await self.store.prune()
        self.record(history.PrunedAll(at=self.clock.now()))

    # Readers

    async def audit(self) -> None:
        """Look at every job that was ever named."""
        views: dict[UUID, JobView | None] = {}
        cursor: str | None = None
        while True:
            page = await self.store.jobs(cursor=cursor, rows_max=1000)
            views |= {view.job.id: view for view in page.rows}
            cursor = page.cursor
            if cursor is None:
                break
        for job in [*self.ledger.accounts, *self.ledger.refused]:
            if job not in views:
                views[job] = await self._view(job)
        self.record(history.Audited(at=self.clock.now(), views=views))

    async def _view(self, job: UUID) -> JobView | None:
        try:
            return await self.store.job(job)
        except UnknownJob:
            return None

    async def check_tables(self) -> None:
        complaints = await self.store.check()
        self.record(history.TablesChecked(at=self.clock.now(), complaints=complaints))


def forget(worker: Worker, settlement: Settlement) -> None:
    """Take out of a worker's memory what it has settled."""
    settled = {outcome.job.id for outcome in settlement.outcomes}
    lease = settlement.lease
    gone_on = all(type(outcome.verdict).__name__ == "Done" for outcome in settlement.outcomes)
    kept: list[Claim] = []
    for claim in worker.held:
        if (claim.lease.token, claim.lease.lane) != (lease.token, lease.lane):
            kept.append(claim)
            continue
        rest = [job for job in claim.jobs if job.id not in settled]
        keyed = lease.key is not None and lease.lane is not None
        if rest and (gone_on or not keyed):
            kept.append(Claim(lease=lease, jobs=rest))
    worker.held = kept

"""What must be true of every job after a history: its account, kept from the history alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from inturn.model.job import JobState, NewJob
from inturn.model.lane import OnDead, QueueSettings
from inturn.model.lease import Claim
from inturn.policy.dedupe import digest
from inturn.policy.retry import crash_delay_seconds
from inturn.policy.settlement import Settlement
from inturn.policy.verdict import Bury, Done, Release, Retry
from tests.simulation.history import (
    Accepted,
    Cancelled,
    Claimed,
    Configured,
    DeadDropped,
    DeadRetried,
    Event,
    Extended,
    GateAdvanced,
    GateOpened,
    Held,
    LaneDecided,
    PrunedAll,
    Refused,
    Settled,
    TakenBack,
)

Moment = tuple[int, float]  # the event's number, and a place within it
END = float("inf")

# A job without key that was retried keeps its first place in the log. Its history goes when that
# place was passed long enough ago, however short a time ago the job itself was done.
PARKED_MAY_GO_EARLY = True

ENDS = frozenset({JobState.DONE, JobState.DEAD, JobState.CANCELLED})


@dataclass
class Holding:
    """A lease as its worker knows it, and the jobs under it that are not settled."""

    token: int
    worker: str
    until: datetime
    alone: bool
    jobs: list[UUID]


@dataclass
class Account:
    """One accepted job."""

    job: NewJob
    accepted_at: datetime
    due_at: datetime
    waits: set[UUID]
    reacts: bool = False  # something that it was to react to has failed
    late: int = 0  # after so many claims at most it is let in, or ends as it is to
    end: JobState | None = None
    ended_at: datetime | None = None
    holding: Holding | None = None
    attempt: int = 0  # attempts counted so far
    crashes: int = 0  # of workers that had nothing else in their hands
    suspect: bool = False
    spared: bool = False  # its last worker died while it ran other jobs as well
    token: int = 0  # of its latest lease
    joined_from: Moment | None = None  # it took its place in line not before,
    joined_by: Moment | None = None  # and not after
    moved: bool = False  # it did not simply take its place when it was accepted
    parked: bool = False  # it waited by itself after it had left its lane
    found_done_at: datetime | None = None  # by a prune
    may_be_forgotten: bool = False

    @property
    def lane(self) -> tuple[str, str] | None:
        return None if self.job.key is None else (self.job.queue, self.job.key)

    def is_before(self, other: Account) -> bool:
        """Say whether it surely stands before another in line."""
        if self.joined_by is None:
            return False
        return other.joined_from is None or self.joined_by < other.joined_from


@dataclass
class Dedupe:
    """A dedupe key in use."""

    job: UUID
    content: bytes
    until: datetime


@dataclass
class Ledger:
    """All accounts, and what is known of queues and lanes."""

    accounts: dict[UUID, Account] = field(default_factory=dict)
    refused: set[UUID] = field(default_factory=set)
    holdings: dict[int, Holding] = field(default_factory=dict)
    settings: dict[str, QueueSettings] = field(default_factory=dict)
    gates: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    paused: set[tuple[str, str | None]] = field(default_factory=set)
    halted: dict[tuple[str, str], UUID] = field(default_factory=dict)
    dedupes: dict[tuple[str, str], Dedupe] = field(default_factory=dict)
    number: int = 0

    def note(self, event: Event) -> None:
        """Take an event into the accounts."""
        self.number += 1
        self._note_due(event.at)
        match event:
            case Configured():
                self.settings[event.queue] = event.settings
            case Accepted():
                self._accept(event)
            case Refused():
                self.refused |= {job.id for job in event.jobs} - self.accounts.keys()
            case Claimed():
                self._claim(event)
            case Settled():
                for settlement in event.settlements:
                    self._settle(settlement, event.at)
            case Extended():
                self._extend(event)
            case TakenBack():
                for holding in self.run_out(event.at):
                    self._take_back(holding, event.at)
            case Cancelled(state=JobState.CANCELLED):
                account = self.accounts.get(event.job)
                if account is not None and (account.end is None or account.late):
                    self._drop(account, event.at)
            case DeadRetried():
                for job in event.put_back:
                    self._put_back(self.accounts[job], event.at)
            case DeadDropped():
                for job in event.dropped:
                    self._drop(self.accounts[job], event.at)
            case LaneDecided(job=UUID()):
                self._decide(event)
            case Held():
                change = self.paused.add if event.paused else self.paused.discard
                change((event.queue, event.key))
            case GateOpened():
                self.gates[event.queue] = event.round
            case GateAdvanced():
                self.gates[event.queue] = event.gate.round
            case PrunedAll():
                self._prune(event.at)

    # What checkers ask

    def settings_of(self, queue: str) -> QueueSettings:
        return self.settings.get(queue, QueueSettings())

    def live(self) -> Iterator[Account]:
        return (account for account in self.accounts.values() if account.end is None)

    def run_out(self, at: datetime) -> list[Holding]:
        """Return the leases that a reclaim at this time must take back."""
        return [one for one in self.holdings.values() if one.until <= at and one.jobs]

    def live_dedupe(self, job: NewJob, at: datetime) -> Dedupe | None:
        found = self.dedupes.get((job.queue, job.dedupe or ""))
        return found if found is not None and found.until > at else None

    def is_spent(self, account: Account) -> bool:
        return account.attempt >= account.job.attempts_max

    # Producers

    def _accept(self, event: Accepted) -> None:
        firsts = {
            job.id: ticket.id
            for job, ticket in zip(event.jobs, event.tickets, strict=True)
            if ticket.duplicate
        }
        for place, job in enumerate(event.jobs):
            if job.id in firsts:
                self.refused.add(job.id)
            elif job.id not in self.accounts:
                self._open(job, event.at, place)
        needless = []
        for job in event.jobs:
            if job.id in firsts or not job.waits_for():
                continue
            account = self.accounts[job.id]
            others = {firsts.get(other, other) for other in job.waits_for()} & self.accounts.keys()
            waits = {other for other in others if self.accounts[other].end is not JobState.DONE}
            failed = [self.accounts[other] for other in waits if self.accounts[other].end in ENDS]
            if job.after_failed and failed:
                account.reacts = True
                late = min(other.late for other in failed)
                account.late = late + 1 if late else 0
            elif waits:
                account.waits = waits
            elif job.after_failed:
                needless.append(account)
            if account.waits or account.late:
                account.joined_from = account.joined_by = None
                account.moved = True
        for account in needless:
            self._end(account, JobState.CANCELLED, event.at)

    def _open(self, job: NewJob, at: datetime, place: int) -> None:
        due_at = at + timedelta(seconds=job.delay_seconds)
        account = Account(job=job, accepted_at=at, due_at=due_at, waits=set())
        if job.delay_seconds:
            account.moved = True
        else:
            account.joined_from = account.joined_by = (self.number, place)
        self.accounts[job.id] = account
        if job.dedupe is not None:
            until = at + timedelta(seconds=job.dedupe_seconds)
            content = digest(job.kind, job.key, job.payload)
            self.dedupes[job.queue, job.dedupe] = Dedupe(job.id, content, until)

    # Workers

    def _claim(self, event: Claimed) -> None:
        if (event.queue, None) not in self.paused:
            self._join_due(event)
            for account in self.accounts.values():
                account.late = max(account.late - 1, 0)
        for claim in event.claims:
            self._lease(claim, event.worker)

    def _join_due(self, event: Claimed) -> None:
        """Let what is due, and what waits for nothing any more, take its place in line."""
        due = [
            account
            for account in self.live()
            if account.joined_by is None
            and not account.waits
            and account.job.queue == event.queue
            and account.due_at <= event.at
        ]
        for account in due:
            account.joined_by = (self.number, END)

    def _note_due(self, at: datetime) -> None:
        """Let jobs that are due join from now on; the next claim of the queue lets in the last."""
        for account in self.live():
            if account.joined_from is None and not account.waits and account.due_at <= at:
                account.joined_from = (self.number, -1)

    def _lease(self, claim: Claim, worker: str) -> None:
        lease = claim.lease
        holding = self.holdings.get(lease.token)
        if holding is None:
            holding = Holding(lease.token, worker, lease.until, lease.alone, [])
            self.holdings[lease.token] = holding
        for leased in claim.jobs:
            account = self.accounts[leased.id]
            account.holding, account.token = holding, lease.token
            account.attempt += 1
            holding.jobs.append(leased.id)

    def _settle(self, settlement: Settlement, at: datetime) -> None:
        stopped = False
        for outcome in settlement.outcomes:
            if stopped:
                break
            account = self.accounts[outcome.job.id]
            stopped = settlement.lease.lane is not None and account.job.key is not None
            match outcome.verdict:
                case Done():
                    self._end(account, JobState.DONE, at)
                    stopped = False
                case Retry() as verdict:
                    self._fail(account, verdict, at)
                case Bury():
                    self._bury(account, at)
                case Release():
                    self._give_back(account)
        if stopped:
            self._give_back_rest(settlement)

    def _fail(self, account: Account, verdict: Retry, at: datetime) -> None:
        if verdict.counted and self.is_spent(account):
            return self._bury(account, at)
        self._let_go(account)
        account.attempt -= not verdict.counted
        account.due_at = at + timedelta(seconds=verdict.delay_seconds)
        account.suspect = account.suspect and account.job.key is not None
        account.spared = False

    def _give_back_rest(self, settlement: Settlement) -> None:
        """Give back what is left of a keyed lane's run."""
        holding = self.holdings.get(settlement.lease.token)
        for job in list(holding.jobs) if holding is not None else []:
            if self.accounts[job].lane == (settlement.lease.queue, settlement.lease.key):
                self._give_back(self.accounts[job])

    def _give_back(self, account: Account) -> None:
        self._let_go(account)
        account.attempt -= 1

    def _let_go(self, account: Account) -> None:
        holding, account.holding = account.holding, None
        account.parked = account.parked or account.job.key is None
        if holding is not None and account.job.id in holding.jobs:
            holding.jobs.remove(account.job.id)
            if not holding.jobs:
                self.holdings.pop(holding.token, None)

    def _extend(self, event: Extended) -> None:
        for lease in event.leases:
            holding = self.holdings.get(lease.token)
            if holding is not None and lease not in event.lost:
                holding.until = event.at + timedelta(seconds=event.lease_seconds)

    def _take_back(self, holding: Holding, at: datetime) -> None:
        for job in list(holding.jobs):
            account = self.accounts[job]
            if not holding.alone:
                self._give_back(account)
                account.suspect = account.spared = True
                continue
            self._let_go(account)
            account.crashes += 1
            account.spared = False
            account.due_at = at + timedelta(seconds=crash_delay_seconds(account.crashes))
            if self.is_spent(account):
                self._bury(account, at)

    # Ends

    def _end(self, account: Account, end: JobState, at: datetime) -> None:
        was_parked = account.parked
        self._let_go(account)
        account.parked = was_parked
        account.end, account.ended_at = end, at
        # Its place in the log is pruned as if it had been done when it was parked.
        account.may_be_forgotten = PARKED_MAY_GO_EARLY and was_parked and end is JobState.DONE
        account.suspect = account.spared = False
        for other in list(self.live()):
            if account.job.id in other.waits:
                self._tell(other, account, end, at)

    def _tell(self, other: Account, account: Account, end: JobState, at: datetime) -> None:
        """Tell a job that waits for another how that one ended."""
        if end is JobState.DONE:
            other.waits.discard(account.job.id)
            if not other.waits and other.job.after_failed:
                self._end(other, JobState.CANCELLED, at)
            elif not other.waits:
                other.joined_from = (self.number, 0)
        elif other.job.after_failed:
            other.waits.clear()
            other.reacts, other.late = True, account.late + 1
            other.joined_from = (self.number, 0)
        elif end is JobState.CANCELLED:
            other.waits.clear()
            other.late = int(bool(account.job.after_failed))
            self._end(other, JobState.DEAD, at)

    def _bury(self, account: Account, at: datetime) -> None:
        self._end(account, JobState.DEAD, at)
        halts = self.settings_of(account.job.queue).on_dead is OnDead.HALT
        if halts and account.lane is not None:
            self.halted[account.lane] = account.job.id

    def _drop(self, account: Account, at: datetime) -> None:
        if account.lane is not None and self.halted.get(account.lane) == account.job.id:
            del self.halted[account.lane]
        self._end(account, JobState.CANCELLED, at)

    def _put_back(self, account: Account, at: datetime) -> None:
        in_place = account.lane is not None and self.halted.get(account.lane) == account.job.id
        if in_place and account.lane is not None:
            del self.halted[account.lane]
        else:
            account.joined_from = account.joined_by = (self.number, 0)
        account.end = account.ended_at = None
        account.attempt = account.crashes = 0
        account.due_at, account.moved = at, True
        account.parked = account.job.key is None

    def _decide(self, event: LaneDecided) -> None:
        assert event.job is not None
        account = self.accounts[event.job]
        if event.decision == "retry":
            self._put_back(account, event.at)
        elif event.decision == "drop":
            self._drop(account, event.at)
        self.halted.pop((event.queue, event.key), None)

    def _prune(self, at: datetime) -> None:
        """Note which finished jobs the store may have forgotten by now."""
        for account in self.accounts.values():
            keep = timedelta(seconds=self.settings_of(account.job.queue).keep_done_seconds)
            if account.end is JobState.DONE:
                account.found_done_at = account.found_done_at or at
                account.may_be_forgotten |= at >= account.found_done_at + keep
            elif account.end is JobState.CANCELLED and account.ended_at is not None:
                account.may_be_forgotten |= at >= account.ended_at + keep

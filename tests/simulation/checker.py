"""The promises, each a small function that says in sentences how an event breaks it.

They know the history (through the ledger) and what the store shows to anyone, and nothing of its
tables. Each is asked about an event before the ledger takes it in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from inturn.model.errors import DedupeConflict, UnknownDependency
from inturn.model.job import JobState, LeasedJob
from inturn.model.lane import OnDead
from inturn.model.lease import Claim
from inturn.policy.dedupe import digest
from inturn.policy.verdict import Done
from tests.simulation.history import (
    Accepted,
    Audited,
    Cancelled,
    Claimed,
    DeadRetried,
    Drained,
    Event,
    Extended,
    GateAdvanced,
    LaneDecided,
    Refused,
    Settled,
    SettleRefused,
    TablesChecked,
    TakenBack,
)
from tests.simulation.ledger import ENDS, Account, Ledger

Check = Callable[[Ledger, Event], Iterator[str]]

RANK_LAG = timedelta(seconds=1)  # an open lane's rank may be that much behind


def loss(ledger: Ledger, event: Event) -> Iterator[str]:
    """Every accepted job is there, in the state its history says, until its time is over."""
    if isinstance(event, Cancelled):
        account = ledger.accounts[event.job]
        if event.state is None and not account.may_be_forgotten:
            yield f"job {event.job} was accepted and is unknown to cancel"
    if isinstance(event, Refused) and isinstance(event.error, UnknownDependency):
        for other in {*event.error.missing} - event.settled:
            there = ledger.accounts.get(other)
            if there and there.waits & event.settled:
                continue  # a reaction, which was needless by then
            if there and not there.may_be_forgotten and there.end is not JobState.CANCELLED:
                yield f"job {other} was accepted and is unknown as a dependency"
    if not isinstance(event, Audited):
        return
    for id, account in ledger.accounts.items():
        view = event.views.get(id)
        if view is None:
            if not account.may_be_forgotten:
                yield f"job {id} was accepted, is {account.end or 'unfinished'}, and is gone"
        elif (view.state in ENDS or account.end is not None) and view.state != account.end:
            if account.late and view.state is JobState.BLOCKED:
                continue
            if not _is_judged_elsewhere(ledger, account, view.state):
                yield f"job {id} is {view.state} and should be {account.end or 'unfinished'}"
        elif (view.state is JobState.RUNNING) != (account.holding is not None):
            yield f"job {id} is {view.state}, and its lease is {account.holding}"


def _is_judged_elsewhere(ledger: Ledger, account: Account, state: JobState) -> bool:
    """Leave to the checkers of attempts and suspects what is theirs."""
    late = _died_of_attempts(ledger, account) and state not in ENDS
    return late or (account.end is None and account.spared and state is JobState.DEAD)


def _died_of_attempts(ledger: Ledger, account: Account) -> bool:
    return account.end is JobState.DEAD and ledger.is_spent(account)


def duplicates(ledger: Ledger, event: Event) -> Iterator[str]:
    """No job is done twice, and none that has ended starts again by itself."""
    if isinstance(event, Settled):
        for settlement in event.settlements:
            for outcome in settlement.outcomes:
                account = ledger.accounts[outcome.job.id]
                if account.end is JobState.DONE and isinstance(outcome.verdict, Done):
                    yield f"job {outcome.job.id} was done twice, by {event.worker} again"
    for _, leased, account in _starts(ledger, event):
        if account.end is not None and not _died_of_attempts(ledger, account):
            yield f"job {leased.id} was started though it is {account.end}"


def order(ledger: Ledger, event: Event) -> Iterator[str]:
    """Jobs of one key start in the order they took their places, one lease at a time."""
    if not isinstance(event, Claimed):
        return
    together = [{job.id for job in claim.jobs} for claim in event.claims]
    for claim, mine in zip(event.claims, together, strict=True):
        if claim.lease.key is None:
            continue
        earlier = set()
        for leased in claim.jobs:
            account = ledger.accounts.get(leased.id)
            if account is None:
                continue
            earlier.add(leased.id)
            for other in ledger.live():
                if other.lane != account.lane or other.job.id in earlier:
                    continue
                if other.holding is not None and other.job.id not in mine:
                    yield f"job {leased.id} runs beside {other.job.id} in lane {account.lane}"
                elif other.is_before(account):
                    yield f"job {leased.id} of lane {account.lane} overtook {other.job.id}"
    lanes = Counter(claim.lease.key for claim in event.claims if claim.lease.key is not None)
    for key, count in lanes.items():
        if count > 1:
            yield f"lane {key!r} was leased {count} times in one claim"


def halts(ledger: Ledger, event: Event) -> Iterator[str]:
    """A lane that is halted stays so until a person decides, and only then."""
    if isinstance(event, Claimed):
        for claim in event.claims:
            halted = ledger.halted.get((event.queue, claim.lease.key or ""))
            if halted is not None:
                yield f"lane {claim.lease.key!r} was claimed though it is halted on {halted}"
    if isinstance(event, LaneDecided):
        halted = ledger.halted.get((event.queue, event.key))
        if halted != event.job:
            yield f"lane {event.key!r} is halted on {halted}, and the store says {event.job}"


def fencing(ledger: Ledger, event: Event) -> Iterator[str]:
    """Only who holds a job settles it; the tokens of its leases go up."""
    if isinstance(event, Settled):
        for settlement in event.settlements:
            token = settlement.lease.token
            for outcome in settlement.outcomes:
                account = ledger.accounts[outcome.job.id]
                held = account.holding is not None and account.holding.token == token
                again = account.end is JobState.DONE and isinstance(outcome.verdict, Done)
                if not held and not again:
                    yield f"{event.worker} settled job {outcome.job.id} under lost lease {token}"
    if isinstance(event, SettleRefused) and all(
        (holding := ledger.accounts[outcome.job.id].holding) is not None
        and holding.token == settlement.lease.token
        for settlement in event.settlements
        for outcome in settlement.outcomes
    ):
        yield f"{event.worker} was refused though it holds all it wanted to settle"
    for claim, leased, account in _starts(ledger, event):
        if claim.lease.token <= account.token:
            yield f"job {leased.id} got lease {claim.lease.token} after {account.token}"


def leases(ledger: Ledger, event: Event) -> Iterator[str]:
    """Leases that ran out are taken back, and no others; those extended are kept."""
    if isinstance(event, TakenBack):
        expected = len(ledger.run_out(event.at))
        if event.reclaimed.leases != expected:
            yield f"{event.reclaimed.leases} leases were taken back; {expected} had run out"
    if isinstance(event, Extended):
        lost = {(lease.token, lease.lane) for lease in event.lost}
        for lease in event.leases:
            holding = ledger.holdings.get(lease.token)
            lane = (lease.queue, lease.key) if lease.lane is not None and lease.key else None
            held = holding is not None and (
                lane is None or any(ledger.accounts[job].lane == lane for job in holding.jobs)
            )
            if held == ((lease.token, lease.lane) in lost):
                yield f"lease {lease.token} is held: {held}; extend said the contrary"


def attempts(ledger: Ledger, event: Event) -> Iterator[str]:
    """Each attempt is counted once, and there are never more than the job may have."""
    for _, leased, account in _starts(ledger, event):
        if account.spared or (account.end and not _died_of_attempts(ledger, account)):
            continue  # others look at these
        most = account.job.attempts_max
        if leased.attempt > most:
            yield f"job {leased.id} started attempt {leased.attempt} of {most}"
        elif leased.attempt != account.attempt + 1:
            yield f"job {leased.id} started attempt {leased.attempt} after {account.attempt}"
    if isinstance(event, Audited):
        for account in ledger.accounts.values():
            view = event.views.get(account.job.id)
            late = view is not None and view.state not in ENDS
            if view is not None and late and _died_of_attempts(ledger, account):
                yield f"job {account.job.id} is {view.state} after {account.attempt} attempts"
    if isinstance(event, TakenBack) and _took_all_back(ledger, event):
        spent = _spent_alone(ledger, event)
        if event.reclaimed.buried < spent:
            yield f"{event.reclaimed.buried} jobs were buried when the attempts of {spent} ended"


def _took_all_back(ledger: Ledger, event: TakenBack) -> bool:
    return event.reclaimed.leases == len(ledger.run_out(event.at))


def _spent_alone(ledger: Ledger, event: TakenBack) -> int:
    """Count the jobs whose last attempt a reclaim ends: alone when their worker died."""
    alone = (holding for holding in ledger.run_out(event.at) if holding.alone)
    return sum(ledger.is_spent(ledger.accounts[job]) for holding in alone for job in holding.jobs)


def suspects(ledger: Ledger, event: Event) -> Iterator[str]:
    """What was under a lost lease runs alone next, and is not charged for dying in company."""
    if isinstance(event, Claimed):
        tokens = Counter(claim.lease.token for claim in event.claims)
        for claim in event.claims:
            if claim.lease.alone and (len(claim.jobs) > 1 or tokens[claim.lease.token] > 1):
                yield f"lease {claim.lease.token} is for one job alone and holds more"
    for claim, leased, account in _starts(ledger, event):
        if account.suspect and not claim.lease.alone:
            yield f"job {leased.id} is a suspect and was leased in company"
        if account.spared and leased.attempt != account.attempt + 1:
            yield f"job {leased.id} was charged for a crash in company: attempt {leased.attempt}"
    if isinstance(event, Audited):
        for account in ledger.accounts.values():
            view = event.views.get(account.job.id)
            if account.end is None and account.spared and view and view.state is JobState.DEAD:
                yield f"job {account.job.id} is dead because of its neighbour: {view.reason}"
    if isinstance(event, TakenBack) and _took_all_back(ledger, event):
        out = ledger.run_out(event.at)
        company = sum(len(holding.jobs) for holding in out if not holding.alone)
        if event.reclaimed.suspects != company:
            yield f"{event.reclaimed.suspects} jobs became suspects instead of {company}"
        if event.reclaimed.buried > _spent_alone(ledger, event):
            yield f"{event.reclaimed.buried} jobs were buried by a reclaim, some before their time"


def dependencies(ledger: Ledger, event: Event) -> Iterator[str]:
    """Nothing starts before all that it comes after are done."""
    for _, leased, account in _starts(ledger, event):
        if account.waits and not account.job.after_failed:
            yield f"job {leased.id} started before {', '.join(map(str, account.waits))}"
    if isinstance(event, Audited):
        for account in ledger.accounts.values():
            view = event.views.get(account.job.id)
            blocked = view is not None and view.state is JobState.BLOCKED
            if account.end is None and view is not None and blocked != bool(account.waits):
                if account.job.after_failed:
                    continue
                yield f"job {account.job.id} is {view.state} and waits for {account.waits}"
    if isinstance(event, Accepted):
        known = ledger.accounts.keys() | {job.id for job in event.jobs}
        for job, ticket in zip(event.jobs, event.tickets, strict=True):
            for other in () if ticket.duplicate else job.after:
                there = ledger.accounts.get(other)
                if other not in known or (there is not None and there.end is JobState.CANCELLED):
                    yield f"job {job.id} was accepted after {other}, which can never be done"


def reactions(ledger: Ledger, event: Event) -> Iterator[str]:
    """A reaction starts when something it waits for has failed, and never otherwise."""
    for _, leased, account in _starts(ledger, event):
        if account.job.after_failed and not account.reacts and account.end is None:
            yield f"job {leased.id} started though nothing has failed: {account.waits} may be done"
    if isinstance(event, Audited):
        for account in ledger.live():
            view = event.views.get(account.job.id)
            if account.job.after_failed and view is not None and not account.late:
                blocked = view.state is JobState.BLOCKED
                if blocked == account.reacts:
                    failed = "something has failed" if account.reacts else "nothing has failed"
                    yield f"job {account.job.id} is {view.state} and {failed}"


def gates(ledger: Ledger, event: Event) -> Iterator[str]:
    """No job of a round starts before its gate; a gate advances when its rounds are complete."""
    for _, leased, account in _starts(ledger, event):
        gate = ledger.gates[leased.queue]
        if max(leased.round, account.job.round) > gate:
            yield f"job {leased.id} of round {leased.round} started with the gate at {gate}"
        if leased.round < account.job.round:
            yield f"job {leased.id} fell from round {account.job.round} to {leased.round}"
    if not isinstance(event, GateAdvanced):
        return
    gate = ledger.gates[event.queue]
    if event.gate.advanced != (event.gate.round > gate):
        yield f"the gate of {event.queue} was at {gate} and answered {event.gate}"
    if not event.gate.advanced:
        if not event.gate.unfinished and not event.gate.exhausted:
            yield f"the gate of {event.queue} stays at {gate} for no reason"
        return
    halting = ledger.settings_of(event.queue).on_dead is OnDead.HALT
    for account in ledger.accounts.values():
        unfinished = account.end is None or (halting and account.end is JobState.DEAD)
        if account.job.queue == event.queue and unfinished and _is_of_round(ledger, account, gate):
            yield f"the gate of {event.queue} left {gate} before job {account.job.id} was done"


def _is_of_round(ledger: Ledger, account: Account, gate: int) -> bool:
    """Say whether a job surely counts to the open rounds: in a lane, nothing raised its round."""
    if account.job.round > gate:
        return False
    return account.lane is None or all(
        other.job.round <= gate for other in ledger.accounts.values() if other.lane == account.lane
    )


def backoff(ledger: Ledger, event: Event) -> Iterator[str]:
    """Nothing starts before it is due: delayed, failed, or its worker lost."""
    for _, leased, account in _starts(ledger, event):
        if event.at < account.due_at:
            early = (account.due_at - event.at).total_seconds()
            yield f"job {leased.id} started {early:g} s before it was due"


def dedupe(ledger: Ledger, event: Event) -> Iterator[str]:
    """A dedupe key stands for one job while its window lasts, and for none after."""
    if isinstance(event, Accepted):
        yield from _dedupe_accepted(ledger, event)
    if isinstance(event, Refused) and isinstance(event.error, DedupeConflict):
        named = [job for job in event.jobs if job.dedupe == event.error.dedupe]
        contents = {digest(job.kind, job.key, job.payload) for job in named}
        live = [found for job in named if (found := ledger.live_dedupe(job, event.at))]
        contents |= {found.content for found in live}
        if len(contents) < 2:
            yield f"dedupe key {event.error.dedupe!r} was refused without a conflict"


def _dedupe_accepted(ledger: Ledger, event: Accepted) -> Iterator[str]:
    firsts: dict[tuple[str, str], UUID] = {}
    for job, ticket in zip(event.jobs, event.tickets, strict=True):
        if job.dedupe is None:
            continue
        name = (job.queue, job.dedupe)
        live = ledger.live_dedupe(job, event.at)
        first = live.job if live is not None else firsts.get(name)
        firsts.setdefault(name, ticket.id)
        if first is None and ticket.duplicate:
            yield f"dedupe key {job.dedupe!r} was free, and {job.id} became {ticket.id}"
        elif first is not None and ticket.id != first:
            yield f"dedupe key {job.dedupe!r} stands for {first} and {job.id} was accepted too"


def priority(ledger: Ledger, event: Event) -> Iterator[str]:
    """What has waited long enough for its priority goes first: nothing is starved."""
    if not isinstance(event, Claimed) or not event.claims:
        return
    taken = {job.id for claim in event.claims for job in claim.jobs}
    aging = ledger.settings_of(event.queue).aging_seconds
    passed = [
        account
        for account in ledger.live()
        if account.job.id not in taken and _could_be_claimed(ledger, account, event)
    ]
    for claim in event.claims:
        if claim.lease.lane is None or claim.lease.alone:
            continue
        first = claim.jobs[0]
        rank = _rank(first.enqueued_at, first.priority, aging)
        for account in passed:
            waited = _rank(account.accepted_at, account.job.priority, aging)
            if (account.job.round, waited + RANK_LAG) < (first.round, rank):
                yield f"job {first.id} was started before {account.job.id}, which ranks higher"


def _rank(at: datetime, priority: int, aging_seconds: float) -> datetime:
    return at - timedelta(seconds=priority * aging_seconds)


def _could_be_claimed(ledger: Ledger, account: Account, event: Claimed) -> bool:
    """Say whether a job stood in an open lane all the time, free to be claimed."""
    job = account.job
    return (
        job.queue == event.queue
        and job.key is None
        and job.round <= ledger.gates[event.queue]
        and (event.kinds is None or job.kind in event.kinds)
        and not account.moved
        and account.token == 0
    )


def pauses(ledger: Ledger, event: Event) -> Iterator[str]:
    """Nothing starts in a paused queue or lane."""
    for _, leased, _ in _starts(ledger, event):
        for place in ((leased.queue, None), (leased.queue, leased.key)):
            if place in ledger.paused:
                yield f"job {leased.id} started though {place} is paused"
                break


def kinds(ledger: Ledger, event: Event) -> Iterator[str]:
    """A worker gets the kinds it asked for, and what stands right behind them in a lane."""
    if isinstance(event, Claimed) and event.kinds is not None:
        for claim in event.claims:
            if claim.jobs[0].kind not in event.kinds:
                yield f"{event.worker} asked for {event.kinds} and got {claim.jobs[0].kind!r}"


def sizes(ledger: Ledger, event: Event) -> Iterator[str]:
    """A claim gives no more than was asked for, and no empty leases."""
    if not isinstance(event, Claimed):
        return
    count = sum(len(claim.jobs) for claim in event.claims)
    alone = sum(claim.lease.alone for claim in event.claims)
    if count > event.jobs_max or alone > event.suspects_max:
        yield f"{event.worker} asked for {event.jobs_max} jobs and got {count}, {alone} alone"
    if not all(claim.jobs for claim in event.claims):
        yield f"{event.worker} got a lease with no jobs"


def batches(ledger: Ledger, event: Event) -> Iterator[str]:
    """A batch that was refused, or a duplicate, leaves nothing behind."""
    if isinstance(event, Audited):
        for id in ledger.refused:
            if event.views.get(id) is not None:
                yield f"job {id} was refused and is there"
    if isinstance(event, Claimed):
        for claim in event.claims:
            for leased in claim.jobs:
                if leased.id not in ledger.accounts:
                    yield f"job {leased.id} was started and never accepted"


def dead_letters(ledger: Ledger, event: Event) -> Iterator[str]:
    """A dead letter is put back once, however often it is asked for."""
    if isinstance(event, DeadRetried):
        dead = {job for job in event.asked if ledger.accounts[job].end is JobState.DEAD}
        dying = {job for job in dead if ledger.accounts[job].late}  # with a claim that is to come
        if set(event.put_back) - dying != dead - dying:
            yield f"{event.put_back} were put back of {event.asked}; dead were {dead}"


def tables(ledger: Ledger, event: Event) -> Iterator[str]:
    """The store's own check of its tables finds nothing."""
    if isinstance(event, TablesChecked):
        yield from event.complaints


def finish(ledger: Ledger, event: Event) -> Iterator[str]:
    """When all is let go on, every job comes to an end."""
    if isinstance(event, Drained):
        for account in ledger.live():
            yield f"job {account.job.id} never ended"


def _starts(ledger: Ledger, event: Event) -> Iterator[tuple[Claim, LeasedJob, Account]]:
    """Yield what a claim lets start, as far as it was ever accepted."""
    if isinstance(event, Claimed):
        for claim in event.claims:
            for leased in claim.jobs:
                account = ledger.accounts.get(leased.id)
                if account is not None:
                    yield claim, leased, account


CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        loss,
        duplicates,
        order,
        halts,
        fencing,
        leases,
        attempts,
        suspects,
        dependencies,
        reactions,
        gates,
        backoff,
        dedupe,
        priority,
        pauses,
        kinds,
        sizes,
        batches,
        dead_letters,
        tables,
        finish,
    )
}


class Violation(Exception):
    """A promise was broken: which, and in which words."""

    def __init__(self, found: Mapping[str, list[str]]) -> None:
        self.found = found
        lines = [f"  {name}: {said}" for name, all_said in found.items() for said in all_said]
        super().__init__("\n".join(lines))


class Checker:
    """Reads a history as it is written, and stops it at the first event that breaks a promise."""

    def __init__(self, checks: Mapping[str, Check] = CHECKS) -> None:
        self.ledger, self.checks = Ledger(), checks

    def observe(self, event: Event) -> None:
        said = {name: list(check(self.ledger, event)) for name, check in self.checks.items()}
        found = {name: sentences for name, sentences in said.items() if sentences}
        if found:
            raise Violation(found)
        self.ledger.note(event)

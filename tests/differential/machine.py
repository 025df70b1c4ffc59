"""A state machine that tells both stores the same and compares what they answer and show."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from inturn.model.job import JobState, JobView, NewJob
from inturn.model.lane import QueueSettings
from inturn.model.lease import Claim
from inturn.policy.settlement import Outcome, Settlement
from inturn.policy.verdict import Done, Verdict
from inturn.store.protocol import Store
from tests.differential import seen
from tests.differential.pair import Pair, Refusal
from tests.differential.strategies import (
    KINDS,
    QUEUES,
    SETTINGS,
    batches,
    index,
    keys,
    kinds,
    queues,
    verdicts,
)

Twins = tuple[Claim, Claim]
"""The same claim on both stores: the same jobs, tokens and lanes of each store's own."""


class RolledBack(Exception):
    """The caller of a transaction changed its mind."""


class Differential(RuleBasedStateMachine):
    """The same history on both stores."""

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        self.pair = pair
        self.made = 0
        self.ids: list[UUID] = []
        self.sent: dict[UUID, NewJob] = {}
        self.held: list[Twins] = []
        self.gone: list[Twins] = []  # settled or lost: to be refused
        self.views: dict[UUID, JobView] = {}
        self.paused: set[str] = set()

    @initialize()
    def begin(self) -> None:
        self.pair.begin()
        for queue, settings in SETTINGS.items():
            self.same(partial(configure, queue=queue, settings=settings))

    def same(self, verb: Callable[..., Awaitable[Any]]) -> Any:
        """Let both do the same and insist on the same answer."""
        sqlite, postgres = self.pair.both(lambda store, _: verb(store))
        self.compare(sqlite, postgres)
        return sqlite

    def compare(self, sqlite: Any, postgres: Any) -> None:
        assert sqlite == postgres, f"SQLite: {sqlite}\nPostgreSQL: {postgres}"

    # Producers

    @rule(batch=batches(), wait=st.sampled_from((2.0, 2.0, 15.0)))
    def enqueue(self, batch: list[dict[str, Any]], wait: float) -> None:
        if batch[0]["queue"] not in self.paused:
            self.accept([self.new_job(options) for options in batch], wait)

    @rule(batch=batches(), others=st.lists(index, min_size=1, max_size=3))
    def enqueue_after(self, batch: list[dict[str, Any]], others: list[int]) -> None:
        """Jobs that wait for others: for any there ever were, and the next for the one before."""
        if batch[0]["queue"] in self.paused or not self.ids:
            return
        after = frozenset(self.ids[other % len(self.ids)] for other in others)
        jobs: list[NewJob] = []
        for options in batch:
            options = options | {"delay_seconds": 0.0, "after": after}
            jobs.append(self.new_job(options))
            after = frozenset({jobs[-1].id})
        self.accept(jobs, 2.0)

    @precondition(lambda self: self.ids)
    @rule(number=index)
    def enqueue_again(self, number: int) -> None:
        """A job is sent again, as after a cut connection: it is not stored twice.

        Not when it waits for others: what it named may be pruned by now, and is checked first.
        """
        job = self.sent[self.ids[number % len(self.ids)]]
        if job.id in self.views and not job.after and job.queue not in self.paused:
            self.accept([job], 2.0)

    def accept(self, jobs: list[NewJob], wait: float) -> None:
        """Enqueue, and let time pass, so that no two lanes ever have the same rank."""
        sqlite, postgres = self.pair.both(lambda store, _: store.enqueue(jobs))
        self.compare_tickets(sqlite, postgres)
        if not isinstance(sqlite, Refusal):
            self.remember(jobs)
        self.pair.clock.advance(wait)

    def compare_tickets(self, sqlite: Any, postgres: Any) -> None:
        if isinstance(sqlite, Refusal) or isinstance(postgres, Refusal):
            self.compare(sqlite, postgres)
        else:
            self.compare([*map(seen.ticket, sqlite)], [*map(seen.ticket, postgres)])

    def remember(self, jobs: list[NewJob]) -> None:
        self.sent |= {job.id: job for job in jobs}
        self.ids = list(self.sent)

    def new_job(self, options: dict[str, Any]) -> NewJob:
        self.made += 1
        stamp = 1_700_000_000_000 + self.made
        made = UUID(int=(stamp << 80) | (0x7 << 76) | (0x2 << 62) | self.made)
        return NewJob(**(options | {"id": made}))

    # Workers

    @rule(
        queue=queues,
        jobs_max=st.sampled_from((1, 2, 3, 30)),
        kind=kinds,
        suspects=st.booleans(),
        lease_seconds=st.sampled_from((20.0, 60.0)),
    )
    def claim(
        self, queue: str, jobs_max: int, kind: str | None, suspects: bool, lease_seconds: float
    ) -> None:
        wish = wished(jobs_max, kind, suspects, lease_seconds)
        sqlite, postgres = self.pair.both(lambda store, _: store.claim(queue, **wish))
        self.hold(sqlite, postgres)

    def hold(self, sqlite: list[Claim], postgres: list[Claim]) -> None:
        """Insist that both claimed the same, and keep it."""
        self.compare(seen.claims(sqlite), seen.claims(postgres))
        twins = {one.jobs[0].id: one for one in postgres}
        self.held += [(one, twins[one.jobs[0].id]) for one in sqlite]

    @precondition(lambda self: self.held)
    @rule(number=index, said=st.lists(verdicts, min_size=1, max_size=4))
    def settle(self, number: int, said: list[Verdict]) -> None:
        """Settle the first jobs of a claim, or all of them."""
        if any(view.state is JobState.BLOCKED for view in self.views.values()):
            said = said[:1]  # in which order dependents of several jobs join is not promised
        twins = self.held[number % len(self.held)]
        self.let_join()
        self.settle_twins(twins, said)
        self.let_join()

    @precondition(lambda self: self.held or self.gone)
    @rule(
        number=index,
        said=st.lists(verdicts, min_size=1, max_size=4),
        queue=queues,
        jobs_max=st.sampled_from((1, 3, 30)),
        kind=kinds,
        suspects=st.booleans(),
    )
    def turn(
        self,
        number: int,
        said: list[Verdict],
        queue: str,
        jobs_max: int,
        kind: str | None,
        suspects: bool,
    ) -> None:
        """Settle the first jobs of a claim, often one that is held, and claim in one turn."""
        if any(view.state is JobState.BLOCKED for view in self.views.values()):
            said = said[:1]
        all_twins = [*self.held, *self.held, *self.gone]
        twins = all_twins[number % len(all_twins)]
        wish = wished(jobs_max, kind, suspects, 60.0)
        self.let_join()
        sqlite, postgres = self.pair.both(
            lambda store, which: store.turn([settlement(twins[which], said)], queue, **wish)
        )
        if isinstance(sqlite, Refusal) or isinstance(postgres, Refusal):
            self.compare(sqlite, postgres)
            self.held = [one for one in self.held if one != twins]
        else:
            self.forget(twins, said)
            self.hold(sqlite, postgres)
        self.let_join()

    @rule(queue=queues)
    def claim_all(self, queue: str) -> None:
        self.claim(queue, 30, None, True, 60.0)

    @rule(queue=queues, said=verdicts)
    def claim_and_settle(self, queue: str, said: Verdict) -> None:
        """Claim one job and settle it at once."""
        before = len(self.held)
        self.claim(queue, 1, None, False, 20.0)
        if len(self.held) > before:
            self.settle(len(self.held) - 1, [said])

    @precondition(lambda self: self.held)
    @rule()
    def crash(self) -> None:
        """All workers die: their leases run out and are taken back."""
        self.pair.clock.advance(100.0)
        self.reclaim()

    @precondition(lambda self: self.held)
    @rule(number=index)
    def finish(self, number: int) -> None:
        """Finish a whole claim."""
        twins = self.held[number % len(self.held)]
        self.settle(number, [Done()] * len(twins[0].jobs))

    @precondition(lambda self: self.gone)
    @rule(number=index, said=verdicts)
    def settle_what_is_gone(self, number: int, said: Verdict) -> None:
        self.settle_twins(self.gone[number % len(self.gone)], [said])

    @precondition(lambda self: self.held)
    @rule(number=index, said=verdicts, batch=batches(), rolls_back=st.booleans())
    def settle_and_enqueue(
        self, number: int, said: Verdict, batch: list[dict[str, Any]], rolls_back: bool
    ) -> None:
        """Both in one transaction, and sometimes neither."""
        if batch[0]["queue"] in self.paused:
            return
        twins = self.held[number % len(self.held)]
        jobs = [self.new_job(options) for options in batch]
        self.let_join()

        async def verb(store: Store, which: int) -> Any:
            try:
                async with store.transaction() as transaction:
                    await transaction.settle([settlement(twins[which], [said])], worker="w1")
                    tickets = await transaction.enqueue(jobs)
                    if rolls_back:
                        raise RolledBack
                    return tickets
            except RolledBack:
                return []

        # Those who waited for the settled job join before the new jobs on the one store and after
        # them on the other, so nobody may be waiting.
        if any(view.state is JobState.BLOCKED for view in self.views.values()):
            return
        sqlite, postgres = self.pair.both(verb)
        self.compare_tickets(sqlite, postgres)
        if sqlite and not isinstance(sqlite, Refusal):
            self.remember(jobs)
            self.forget(twins, [said])
        self.pair.clock.advance(2.0)

    def settle_twins(self, twins: Twins, said: list[Verdict]) -> None:
        sqlite, postgres = self.pair.both(
            lambda store, which: store.settle([settlement(twins[which], said)], worker="w1")
        )
        self.compare(sqlite, postgres)
        if not isinstance(sqlite, Refusal):
            self.forget(twins, said)
        elif twins in self.held:
            self.held.remove(twins)

    def forget(self, twins: Twins, said: list[Verdict]) -> None:
        """Keep of a claim what was not settled."""
        self.gone = [*self.gone[-9:], twins]
        if twins not in self.held:
            return
        self.held.remove(twins)
        settled = {outcome.job.id for outcome in settlement(twins[0], said).outcomes}
        ran_on = all(isinstance(verdict, Done) for verdict in said[: len(twins[0].jobs)])
        rest = [[job for job in one.jobs if job.id not in settled] for one in twins]
        keyed = twins[0].lease.key is not None and twins[0].lease.lane is not None
        if rest[0] and (ran_on or not keyed):
            sqlite, postgres = (
                Claim(lease=one.lease, jobs=jobs) for one, jobs in zip(twins, rest, strict=True)
            )
            self.held.append((sqlite, postgres))

    @precondition(lambda self: self.held)
    @rule(lease_seconds=st.sampled_from((20.0, 90.0)))
    def extend(self, lease_seconds: float) -> None:
        def leased(which: int) -> list[Any]:
            return [twins[which].lease for twins in [*self.held, *self.gone]]

        sqlite, postgres = self.pair.both(
            lambda store, which: store.extend(leased(which), lease_seconds=lease_seconds)
        )
        lost = [[lease in found for lease in leased(which)] for which, found in
                enumerate((sqlite, postgres))]  # fmt: skip
        assert lost[0] == lost[1]

    @rule()
    def reclaim(self) -> None:
        self.same(lambda store: store.reclaim())

    @rule(seconds=st.sampled_from((3.0, 25.0, 70.0)))
    def pass_time(self, seconds: float) -> None:
        self.pair.clock.advance(seconds)

    # Operators

    @precondition(lambda self: self.ids)
    @rule(number=index)
    def cancel(self, number: int) -> None:
        job = self.ids[number % len(self.ids)]
        self.same(lambda store: store.cancel(job, by="ann"))

    @rule(
        queue=queues,
        key=keys,
        line=st.lists(st.sampled_from(KINDS), min_size=2, max_size=4),
        gone=st.lists(st.booleans(), min_size=4, max_size=4),
        kind=kinds,
    )
    def cancel_within_a_line_of_kinds(
        self, queue: str, key: str, line: list[str], gone: list[bool], kind: str | None
    ) -> None:
        """A line of several kinds, of which the first is run and some behind it are cancelled: the
        lane must know the kind of what stands at its head then, or claims by kind pass it over.
        """
        if queue in self.paused:
            return
        jobs = [self.new_job({"queue": queue, "key": key, "kind": one}) for one in line]
        self.accept(jobs, 2.0)
        self.claim(queue, 1, None, False, 20.0)
        for job, is_gone in zip(jobs[1:], gone, strict=False):
            if is_gone and job.id in self.sent:
                self.same(partial(cancel, job=job.id))
        if self.held:
            self.finish(len(self.held) - 1)
        self.claim(queue, 3, kind, False, 20.0)

    @precondition(lambda self: self.dead())
    @rule(number=index, drops=st.booleans())
    def decide_dead(self, number: int, drops: bool) -> None:
        dead = self.dead()
        job = dead[number % len(dead)]
        if self.views[job].job.queue in self.paused:
            return
        if drops:
            self.same(lambda store: store.dead_drop([job], by="ann"))
        else:
            self.same(lambda store: store.dead_retry([job]))
            self.pair.clock.advance(2.0)

    @precondition(lambda self: self.dead())
    @rule(queue=queues, key=keys, decision=st.sampled_from(("retry", "skip", "drop")))
    def decide_lane(self, queue: str, key: str, decision: str) -> None:
        if decision == "retry":
            self.same(lambda store: store.retry_lane(queue, key))
        elif decision == "skip":
            self.same(lambda store: store.skip_lane(queue, key))
        else:
            self.same(lambda store: store.drop_lane(queue, key, by="ann"))

    @rule(queue=queues, key=st.one_of(st.none(), keys, keys), paused=st.sampled_from((1, 0, 0)))
    def pause_or_resume(self, queue: str, key: str | None, paused: int) -> None:
        if paused:
            self.same(lambda store: store.pause(queue, key=key, by="ann"))
        else:
            self.same(lambda store: store.resume(queue, key=key))
        if key is None:
            (self.paused.add if paused else self.paused.discard)(queue)
            self.let_join()

    @rule(queue=queues, round=st.sampled_from((None, None, 1, 2)))
    def move_gate(self, queue: str, round: int | None) -> None:
        if round is None:
            self.same(lambda store: store.advance_gate(queue))
        else:
            self.same(lambda store: store.open_gate(queue, round))

    @rule()
    def prune(self) -> None:
        """Counts may differ in lanes, which the stores make and drop in their own ways."""
        self.pair.both(lambda store, _: store.prune())

    # Readers

    @precondition(lambda self: self.ids)
    @rule(number=index, queue=queues, key=keys)
    def look(self, number: int, queue: str, key: str) -> None:
        """Read what is too dear, or too dull, to be read after every step."""
        job = self.ids[number % len(self.ids)]
        self.same(lambda store: store.explain(job))
        self.same(lambda store: store.result(job))
        since = self.pair.clock.now() - timedelta(hours=1)
        self.same(lambda store: store.stats(queue, since=since))
        sqlite, postgres = self.pair.both(lambda store, _: store.lanes(queue, key=key))
        self.compare([*map(seen.lane, sqlite.rows)], [*map(seen.lane, postgres.rows)])

    @invariant()
    def jobs_are_the_same(self) -> None:
        sqlite, postgres = self.pair.both(lambda store, _: store.jobs(rows_max=1000))
        self.views = {view.job.id: view for view in sqlite.rows}
        others = {view.job.id: view for view in postgres.rows}
        self.compare(list(self.views), list(others))
        for id, view in self.views.items():
            other = others[id]
            self.compare(seen.view(view), seen.view(other))
            assert None in (view.position, other.position) or view.position == other.position

    @invariant()
    def queues_and_dead_letters_are_the_same(self) -> None:
        self.same(lambda store: store.queues())
        self.same(lambda store: store.dead_letters(rows_max=1000))

    def teardown(self) -> None:
        assert self.same(lambda store: store.check()) == []

    def dead(self) -> list[UUID]:
        return [id for id, view in self.views.items() if view.state is JobState.DEAD]

    def let_join(self) -> None:
        """Let what is due or waits no longer take its place: a claim of a kind that is not."""
        for queue in QUEUES:
            assert self.same(partial(claim_nothing, queue=queue)) == []


async def configure(store: Store, *, queue: str, settings: QueueSettings) -> None:
    await store.configure(queue, settings)


async def claim_nothing(store: Store, *, queue: str) -> list[Claim]:
    return await store.claim(queue, jobs_max=1, worker="usher", kinds={"no such kind"})


async def cancel(store: Store, *, job: UUID) -> JobState:
    return await store.cancel(job, by="ann")


def wished(jobs_max: int, kind: str | None, suspects: bool, lease_seconds: float) -> dict[str, Any]:
    """Say what to claim. Between suspects no order is promised: all of them come, or none."""
    return {
        "jobs_max": jobs_max + (100 if suspects else 0),
        "worker": "w1",
        "lease_seconds": lease_seconds,
        "kinds": None if kind is None else {kind},
        "suspects_max": 100 if suspects else 0,
    }


def settlement(claim: Claim, said: list[Verdict]) -> Settlement:
    """Say verdicts for a claim's first jobs; nothing but Done moves a keyed lane on."""
    outcomes = []
    for job, verdict in zip(claim.jobs, said, strict=False):
        outcomes.append(Outcome(job, verdict))
        if claim.lease.key is not None and not isinstance(verdict, Done):
            break
    return Settlement(claim.lease, outcomes)

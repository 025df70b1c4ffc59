"""The step that a worker repeats: settle what has ended, claim what can be started, start it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from time import monotonic, perf_counter

from inturn.executor.slots import Slots
from inturn.log import log_waits_for_suspect
from inturn.model import bounds
from inturn.model.errors import StoreError
from inturn.model.lane import QueueSettings
from inturn.model.lease import Claim, Lease, Reclaimed, Wish
from inturn.policy.settlement import PLAINLY_DONE, Outcome, Settlement
from inturn.policy.verdict import Release, Retry, Verdict
from inturn.store.store import Store
from inturn.worker.heartbeat import lease_now
from inturn.worker.prefetch import Prefetch
from inturn.worker.queues import QueuesServed
from inturn.worker.record import Record
from inturn.worker.runs import CANCELLED, RELEASE, SLOW_SECONDS, Run, Runs
from inturn.worker.settle_buffer import SettleBuffer, chars_of
from inturn.worker.stop import STILL_RUNS, STOP_NOW_SECONDS, Stop
from inturn.worker.suspects import Suspects

POLL_SECONDS = 2.0


Found = Sequence[Lease] | Reclaimed | Mapping[str, QueueSettings]
"""What the background thread finds: leases that are lost, or taken back; how queues behave."""


class Steps:
    """A worker's leases, slots and settlements, and the decisions about them."""

    def __init__(
        self,
        runs: Runs,
        record: Record,
        served: QueuesServed,
        *,
        concurrency: int,
        jobs_max: int,
    ) -> None:
        self.runs, self.queues, self._record = runs, runs.queues, record
        self._served, self._concurrency = served, concurrency
        self.kinds: tuple[str, ...] = ()
        self.prefetch = Prefetch(concurrency, jobs_max)
        self.suspects = Suspects(served.names)
        self.slots: Slots | None = None  # made when the worker begins
        self.inbox: deque[Found] = deque()
        self.has_claimed = False  # since someone looked
        self._busy_since = 0.0  # or since when jobs have last been seen to end
        self._gives_back_at = 0.0

    def begin(self, store: Store) -> None:
        """Make what needs a store and the loop."""
        self.queues.begin()
        self._store = self.runs.store = store
        self.slots = self.runs.slots = Slots(self._concurrency)
        self.runs.context = copy_context()
        self.buffer = SettleBuffer(store, self.runs.worker, self.runs.volume)

    @property
    def running(self) -> int:
        """How many jobs run, those whose lease was lost as well."""
        return 0 if self.slots is None else self.slots.running

    @property
    def is_empty(self) -> bool:
        """Whether nothing is leased, runs, or is to be settled."""
        return not (self.runs or self.running or self.buffer)

    async def step(self) -> bool:
        """Settle what has ended and claim what can be started; say whether anything was done."""
        now = monotonic()
        self._hear()
        self._give_back(now)
        self._collect()
        wish = self._wish(now)
        if wish is None and not self.buffer:
            return False
        was_empty, news, asked_at = self.is_empty, self.queues.news, lease_now()
        turned = await self.buffer.turn(wish)
        self._settled(turned.settled)
        if turned.refused:
            await self._refused(turned.refused)
        if wish is not None and turned.claims is not None:
            if sum(len(claim.jobs) for claim in turned.claims) < wish.jobs_max:
                self.queues.remove(wish.queue, news=news)
            kept_until = asked_at + self.runs.lease_seconds
            self._start(wish, turned.claims, now, kept_until, was_empty=was_empty)
        return True

    def _wish(self, now: float) -> Wish | None:
        """Return what to claim now, if anything."""
        runs, suspects, is_empty = self.runs, self.suspects, self.is_empty
        if runs.stop >= Stop.FINISH or runs.volume.is_full:
            return None
        if suspects.blocks_claims(now, is_empty=is_empty, has_others=bool(self.queues)):
            return None
        assert self.slots is not None
        busy = self.slots.running + self.slots.waiting
        limited, free = self._served.limited, max(0, self._concurrency - busy)
        # A job claimed from a queue with limits takes one of its places, so it must start at once.
        passed_over = () if free else limited
        queue = suspects.queue(now, is_empty=is_empty) or self.queues.next(passed_over)
        if queue is None or not (wanted := self.prefetch.wanted(runs.in_hand, busy)):
            return None
        if queue in limited and not (wanted := min(wanted, free)):
            return None
        asks = suspects.asks(queue, now, is_empty=is_empty)
        return Wish(
            queue=queue,
            jobs_max=1 if asks else min(wanted, bounds.CLAIM_JOBS_MAX),
            worker=runs.worker,
            lease_seconds=runs.lease_seconds,
            kinds=self.kinds,
            suspects_max=int(asks),
        )

    def _start(
        self, wish: Wish, claims: list[Claim], now: float, kept_until: float, *, was_empty: bool
    ) -> None:
        """Let slots run what was claimed. A suspect does not start when something else runs."""
        is_suspect = bool(wish.suspects_max and claims and claims[0].lease.alone)
        if wish.suspects_max and not is_suspect:
            self.suspects.found_none(wish.queue, now)
        if not claims:
            return
        claimed_at = monotonic()
        runs = [self.runs.take(claim, claimed_at, kept_until) for claim in claims]
        if is_suspect and not was_empty:
            log_waits_for_suspect(wish.queue, self.suspects.found(wish.queue, now))
            runs[0].give_back()
            return
        if is_suspect:
            self.suspects.take(runs[0], now)
        payloads = [job.payload for claim in claims for job in claim.jobs]
        self.prefetch.claimed(payloads)
        self.has_claimed = True
        if was_empty:
            self._busy_since = perf_counter()
        for run in runs:
            run.start()
        self._see_turn(len(payloads), perf_counter())

    def _see_turn(self, jobs: int, began: float) -> None:
        """Find out how long what was just started takes to its first ``await``, or its end."""
        assert self.slots is not None
        if self.slots.is_starting:
            asyncio.get_running_loop().call_soon(self._see_turn, jobs, began)
        else:
            self.prefetch.turned(jobs, perf_counter() - began)
            self.queues.rouse()

    # What has ended

    def _hear(self) -> None:
        """Take in what the background thread has found."""
        while self.inbox:
            found = self.inbox.popleft()
            if isinstance(found, Reclaimed):
                self.take_back(found)
            elif isinstance(found, Mapping):
                self.serve(found)
            else:
                self.lose(found)

    def _collect(self) -> None:
        """Take in what has ended since the last step."""
        ended = ran = chars = 0
        for run, outcomes in self.runs.collect():
            for at, outcome in enumerate(outcomes):
                verdict = outcome.verdict
                if verdict is PLAINLY_DONE:
                    ran += 1
                    continue
                if verdict is CANCELLED:
                    outcome = outcomes[at] = self._cancelled(outcome)
                chars += chars_of(outcome)
                ran += type(verdict) is not Release
            ended += len(outcomes)
            if run.settled_elsewhere:
                self._settled_elsewhere(run, outcomes)
            settlement = self.runs.settlement(run, outcomes)
            if settlement is not None:
                self.buffer.add(run, settlement)
            queue = run.lease.queue
            may_go_on = queue in self._served.limited or (run.is_keyed and not run.left)
            if may_go_on or outcomes[-1].verdict is RELEASE:
                self.queues.add(queue)  # there may be more, and nobody would say so
            self._forget(run)
        if ended:
            now = perf_counter()
            self.prefetch.ended(ran, now - self._busy_since)  # not what was only given back
            self.prefetch.returned(ran, chars)
            self._busy_since = now

    def _settled_elsewhere(self, run: Run, outcomes: list[Outcome]) -> None:
        """Take in what the jobs' own transactions have told the store."""
        for outcome in outcomes:
            if outcome.job.position in run.settled_elsewhere:
                self._record.outcome(outcome)
                self._look_again(outcome.verdict)

    def _cancelled(self, outcome: Outcome) -> Outcome:
        """Decide what becomes of a cancelled job: its handler did it, unless the worker stops."""
        job, attempts = outcome.job, self.runs.attempts[outcome.job.kind]
        if self.runs.stop is Stop.NOW:
            verdict = Release() if attempts.is_cancellable else STILL_RUNS
            return Outcome(job, verdict, outcome.seconds)
        failed = Outcome(job, attempts.failed(job, asyncio.CancelledError()))
        self.runs.volume.add(chars_of(failed))
        return failed

    def _settled(self, settled: Iterable[tuple[Run, Settlement]]) -> None:
        """Take in what the store has taken."""
        for run, settlement in settled:
            run.settled(len(settlement.outcomes))
            self._forget(run)
            for outcome in settlement.outcomes:
                if outcome.verdict is not PLAINLY_DONE:
                    self._look_again(outcome.verdict)
        self._record.settled(settlement for _, settlement in settled)

    def _look_again(self, verdict: Verdict) -> None:
        """Look again when a retry is due."""
        if type(verdict) is Retry:
            self.queues.add_after(min(verdict.delay_seconds, POLL_SECONDS) + 0.001)

    async def _refused(self, refused: Sequence[tuple[Run, Settlement]]) -> None:
        """Drop outcomes whose lease was lost: another worker owns those jobs. Unless the store had
        taken them before, and its answer was lost: then what else is under the lease is still ours.
        """
        self._record.lost(sum(len(settlement.outcomes) for _, settlement in refused))
        held = []
        for run, settlement in refused:
            run.settled(len(settlement.outcomes))
            self._forget(run)
            if run.left:
                held.append(run.lease)
        if held:
            with suppress(StoreError):  # the heartbeat asks again
                self.lose(await self._store.extend(held, lease_seconds=self.runs.lease_seconds))

    def _forget(self, run: Run) -> None:
        if self.runs.forget_ended(run):
            self.suspects.ended(run)

    # What does not start, and what must end

    def _give_back(self, now: float) -> None:
        """Give back what will not start: soon, or at all."""
        runs = self.runs
        if not (runs.stop >= Stop.FINISH or now >= self._gives_back_at):
            return
        self._gives_back_at = now + SLOW_SECONDS / 2
        count = 0
        for run in runs:
            if not runs.may_start(run):
                run.give_back()
            elif run.claimed_at <= now - SLOW_SECONDS and not (run.is_keyed and run.has_begun):
                count += run.give_back()
        if count:
            self.prefetch.slowed()

    def lose(self, leases: Iterable[Lease]) -> None:
        """What has not started under a lost lease must not start, and what runs must end."""
        assert self.slots is not None
        lost = cancelled = going_on = 0
        for run, jobs, running in self.runs.lose(leases):
            lost += jobs
            ending = 0
            for slot in self.slots.of(run):
                if slot.job in running and self.runs.attempts[slot.job.kind].is_cancellable:
                    slot.cancel()
                    ending += 1
            cancelled += ending
            going_on += len(running) - ending
            self.suspects.ended(run)
        self._record.lost(lost, cancelled, going_on)

    def take_back(self, found: Reclaimed) -> None:
        """Hear that a sweep took jobs back from others."""
        self._record.buried(found.buried)
        self.suspects.ask_soon()
        self.queues.add_all()

    def serve(self, settings: Mapping[str, QueueSettings]) -> None:
        """Hear how the store's queues behave, and claim from those that are there to be served."""
        if self._served.hear(settings):
            self.suspects.serve(self._served.names)
            self.queues.add_all()

    async def give_up(self) -> None:
        """Give back all that is in hand, at once: what can be cancelled is, the rest goes on."""
        assert self.slots is not None
        for run in self.runs:
            run.give_back()
        cancelled = [slot for slot in self.slots.on_loop if slot.job is not None]
        for slot in cancelled:
            slot.cancel()
        if cancelled:
            await asyncio.wait([slot.task for slot in cancelled], timeout=STOP_NOW_SECONDS)
        for run in self.runs:
            run.give_up(STILL_RUNS)
        self._collect()

    async def settle_all(self) -> None:
        """Settle what has ended, and claim nothing."""
        while self.buffer:
            turned = await self.buffer.turn(None)
            self._settled(turned.settled)
            if turned.refused:
                await self._refused(turned.refused)

    async def end(self) -> None:
        """End the slots. What still runs in them goes on."""
        assert self.slots is not None
        await self.slots.end()
        self._collect()  # of what was lost: whether its own transaction had settled it

"""The job of a step on its way forward, or back: runs it, and writes down what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from random import Random

from inturn.groups import records, step_decisions
from inturn.groups.errors import NothingDone
from inturn.groups.model import Action, Effect, GroupState, JobCall, StepState
from inturn.groups.perform import Answer, ask, perform, still_runs
from inturn.groups.records import BegunRow, GroupRow, LeasedStep, StepRow
from inturn.groups.step_decisions import ANSWERS, Happened, Move, Outcome, Then
from inturn.model.errors import LeaseLost, StoreBusy, StoreUnavailable
from inturn.policy.raised import describe
from inturn.policy.retry import Reject, RetryLater, RetryPolicy
from inturn.policy.verdict import Bury, Done, Retry
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.queue.together import Together
from inturn.queue.transaction import AppTransaction
from inturn.store.store import Store

LOOK_SECONDS_MIN = 0.5
LOOK_SECONDS_MAX = 15.0
PAUSED_SECONDS_MIN = 2.0
PAUSED_SECONDS_MAX = 30.0
ELSEWHERE_SECONDS = 2.0
RECORD_PAUSES = (0.1, 0.5, 1.0, 2.0, 4.0)
"""How long to wait before what happened is written down again, when the store did not answer."""

DIED = "its worker died, and nobody can tell how far it came"

_random = Random()
_PLAIN = RetryPolicy()


@dataclass(frozen=True, slots=True)
class Seen:
    """What happened, in words to keep."""

    happened: Happened
    error: str | None = None
    answer: str | None = None


class StepAttempt:
    """One attempt at a step, or at its undo."""

    is_undo = False

    def __init__(self, app: App, ctx: Context, group: str, number: int) -> None:
        self.app, self.ctx, self.group, self.number = app, ctx, group, number
        self.row: StepRow  # read when something is to be decided

    async def run_plainly(self, begins: StepBegins, needed: Collection[str]) -> str | None:
        """Make the attempt, in the plain case with no look at the group: it goes forward, nobody
        knows the step to have begun, and its action returns. ``needed``: jobs that the app must
        have.
        """
        self.check_jobs(needed)
        job, token = str(self.ctx.id), self.ctx.token
        leased = LeasedStep(group_id=self.group, number=self.number, job=job, token=token)
        begun = await begins.handle(leased)
        if begun is None:
            return await self.run()
        step = begun.step
        address = None
        if not isinstance(step.do, JobCall):
            address = (await self.read_row()).address
        seen = await self.act(step.do, address, step.timeout)
        if seen.happened is Happened.RETURNED:
            try:
                await self.ctx.done_with(records.STEPS_APPLIED, leased)
                return None
            except (StoreBusy, StoreUnavailable):
                pass  # it is written down by itself, as often as need be
        self.row = await self.read_row()
        await self.end(seen)
        return None

    async def run(self) -> str | None:
        """Make the attempt. Returns why nothing was done, if nothing was."""
        move, why = await self.begin()
        if move is Move.NOTHING:
            return why
        if move is Move.FAIL:
            raise Reject(
                f"{why}. Look with `inturn groups show GROUP`, then retry or skip the step there"
            )
        if move is Move.CONFIRM:
            unconfirmed = await self.confirm()
            if unconfirmed is not None:
                await self.record(unconfirmed)
                return None
            move, why = await self.begin(is_confirmed=True)
            if move is not Move.RUN:
                return why
        seen = Seen(Happened.RAISED)
        if move is Move.RUN:
            seen = await self.act(self.action, self.row.address, self.timeout)
        await self.end(seen)
        return None

    async def end(self, seen: Seen) -> None:
        """Write down what happened; where that is not known, what its node or the verify says."""
        if not await self.record(seen):
            answer = await self.answer_of(self.row, may_run=True)
            error = answer.error or seen.error
            if error is None and answer.answer is None:
                error = self.row.error or DIED
            await self.record(replace(answer, error=error))

    # Before it runs

    async def begin(self, *, is_confirmed: bool = False) -> tuple[Move, str]:
        """Look at the group under its lock, and write down that the step begins if it does."""
        async with self.app.transaction() as t:
            rows = await t.run(records.LOCK_GROUP, id=self.group)
            if not rows:
                return Move.NOTHING, "its group is not there any more"
            [group] = rows
            [self.row] = await t.run(records.STEP, id=self.group, number=self.number)
            if self.job_of_row() != str(self.ctx.id):
                return Move.NOTHING, "another job was made for this step since"
            if self.row.token > self.ctx.token:
                raise LeaseLost([self.ctx.token])
            move = self.next_move(group)
            if move in (Move.ASK, Move.CONFIRM, Move.RUN):
                verify = self.row.step.verify
                self.check_jobs([verify.kind] if isinstance(verify, JobCall) else [])
            if move is Move.CONFIRM and is_confirmed:
                await self.save_pivot(t, group)
                move = Move.RUN
            if move is Move.RUN:
                await self.save_begun(t)
        if move is Move.LATER:
            assert group.paused_at is not None
            now = await self.app.run(lambda store: store.now())
            waited = (now - group.paused_at).total_seconds()
            after = min(max(waited, PAUSED_SECONDS_MIN), PAUSED_SECONDS_MAX)
            reason = f"group {group.name!r} is paused"
            raise RetryLater(after=after, reason=reason, counted=False)
        return move, f"group {group.name!r} is {group.state}, and this step {self.row.state}"

    def check_jobs(self, needed: Collection[str]) -> None:
        """Leave a step to other workers whose jobs this app does not have."""
        for kind in needed:
            if kind not in self.app.jobs:
                reason = f"the app of this worker has no job {kind!r}; another's may"
                raise RetryLater(after=ELSEWHERE_SECONDS, reason=reason, counted=False)

    def job_of_row(self) -> str | None:
        """Return the job that the step goes by."""
        return self.row.job

    def next_move(self, group: GroupRow) -> Move:
        """Say what comes next."""
        return step_decisions.next_move(group.facts_of(self.number), self.row.facts)

    async def save_begun(self, t: AppTransaction) -> None:
        """Write down, before it does, that the step begins."""
        begun = step_decisions.begun(self.row.facts)
        await t.run(
            records.BEGIN_STEP,
            id=self.group,
            number=self.number,
            state=begun.state,
            attempts=begun.attempts,
            token=self.ctx.token,
            now=None,
        )

    async def save_pivot(self, t: AppTransaction, group: GroupRow) -> None:
        """Write down that from here on the group only goes forward."""
        await save_group(t, group, group.state, pivot=self.row.name)

    async def confirm(self) -> Seen | None:
        """Ask the verifies of what an irreversible step comes after; None if all is applied."""
        for number in self.row.after:
            before = await self.read_row(number)
            if before.step.verify is None or before.state is not StepState.APPLIED:
                continue
            seen = await self.answer_of(before)
            if seen.happened is Happened.ASK_FAILED:
                return seen
            if seen.happened is not Happened.APPLIED:
                said = f"{before.name!r}, which it comes after, is not applied: {seen.answer}"
                return Seen(Happened.UNCONFIRMED, said, seen.answer)
        return None

    async def read_row(self, number: int | None = None) -> StepRow:
        """Read the step, or another of its group."""
        number = self.number if number is None else number

        async def read(store: Store) -> list[StepRow]:
            return await store.read(records.STEP, id=self.group, number=number)

        [row] = await self.app.run(read)
        return row

    # Running

    @property
    def action(self) -> Action:
        """What is to be done."""
        return self.row.step.do

    @property
    def timeout(self) -> float | None:
        """How long it may take."""
        return self.row.step.timeout

    async def act(self, action: Action, address: str | None, timeout: float | None) -> Seen:
        """Carry out an action, and say what happened."""
        try:
            await perform(self.ctx, action, address, timeout, step=self.where)
        except Reject as error:
            return Seen(Happened.REJECTED, describe(error))
        except NothingDone as error:
            return Seen(Happened.NOTHING_DONE, str(error))
        except LeaseLost:
            raise
        except Exception as error:
            return Seen(Happened.RAISED, describe(error))
        return Seen(Happened.RETURNED)

    async def answer_of(self, row: StepRow, *, may_run: bool = False) -> Seen:
        """Ask the verify of a step. ``may_run``: ask its node first whether it runs there."""
        step, verify = row.step, row.step.verify
        timeout = verify.timeout if isinstance(verify, JobCall) else step.timeout
        answer = Answer(Effect.CANNOT_TELL)
        try:
            if may_run and await still_runs(step, row.address, self.where):
                return Seen(Happened.STILL_RUNNING, answer="its node says that it runs")
            if verify is not None:
                answer = await ask(self.ctx, verify, row.address, timeout)
        except LeaseLost:
            raise
        except Exception as error:
            said = f"its verify failed: {describe(error)}"
            return Seen(Happened.ASK_FAILED, said, said)
        return Seen(ANSWERS[answer.effect], answer=None if verify is None else str(answer))

    @property
    def where(self) -> str:
        """Return what the node knows the step by."""
        return f"{self.group} {self.number}"

    # Afterwards

    async def record(self, seen: Seen) -> bool:
        """Write down what happened, and what becomes of the job; False: ask the verify first."""
        for pause in (*RECORD_PAUSES, None):
            try:
                return await self._record(seen)
            except (StoreBusy, StoreUnavailable):
                if pause is None or self.ctx.is_lost:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError

    async def _record(self, seen: Seen) -> bool:
        if self.outcome(None, self.row, seen).then is Then.ASK:
            if self.row.step.verify is not None:  # or it is asked at once, and cannot tell
                async with self.app.transaction() as t:
                    [self.row] = await t.run(records.STEP, id=self.group, number=self.number)
                    await self.save(t, self.outcome(None, self.row, seen), seen)
            return False
        is_running = seen.happened is Happened.STILL_RUNNING
        seconds = await self._running_for() if is_running else 0.0
        async with self.ctx.transaction() as t:
            [group] = await t.run(records.LOCK_GROUP, id=self.group)
            [self.row] = await t.run(records.STEP, id=self.group, number=self.number)
            outcome = self.outcome(group, self.row, seen)
            error = seen.error or self.row.error or seen.answer or DIED
            await self.save(t, outcome, seen)
            if outcome.group is not None:
                reason = f"step {self.row.name!r} failed: {error}"
                await save_group(t, group, outcome.group, reason=reason)
            t.verdict = self.verdict(outcome, error, seconds)
        return True

    def outcome(self, group: GroupRow | None, row: StepRow, seen: Seen) -> Outcome:
        """Say what follows from what happened."""
        standing = _ANY if group is None else group.facts
        return step_decisions.after(standing, row.facts, seen.happened)

    async def save(self, t: AppTransaction, outcome: Outcome, seen: Seen) -> None:
        """Write down the step as it is now."""
        facts = outcome.facts
        await t.run(
            records.SAVE_STEP,
            id=self.group,
            number=self.number,
            state=facts.state,
            asks=facts.asks,
            is_doubtful=facts.is_doubtful,
            answer=seen.answer,
            error=seen.error,
            has_ended=outcome.then in (Then.DONE, Then.BURY),
            now=None,
        )

    def verdict(self, outcome: Outcome, error: str, seconds: float) -> Done | Retry | Bury:
        """Return what becomes of the job. ``seconds``: for how long it runs already."""
        match outcome.then:
            case Then.BURY:
                return Bury(error, reason=f"step {self.row.name!r} of its group failed: {error}")
            case Then.TRY_AGAIN:
                attempts = outcome.facts.undo_attempts if self.is_undo else outcome.facts.attempts
                return Retry(self.policy.delay_seconds(max(1, attempts), _random), error)
            case Then.ASK_AGAIN:
                delay = _PLAIN.delay_seconds(max(1, outcome.facts.asks), _random)
                return Retry(delay, error, counted=False)
            case Then.LOOK_AGAIN:
                return Retry(_between(seconds / 4), "it is still running", counted=False)
        return Done()

    @property
    def policy(self) -> RetryPolicy:
        """How long to wait between attempts: as the job's declaration says."""
        action = self.action
        job = self.app.jobs.get(action.kind) if isinstance(action, JobCall) else None
        return _PLAIN if job is None else job.retry

    async def _running_for(self) -> float:
        if self.row.began_at is None:
            return 0.0
        now = await self.app.run(lambda store: store.now())
        return (now - self.row.began_at).total_seconds()


class StepBegins(Together[LeasedStep, BegunRow | None]):
    """Writes down that steps begin, before they do, as many together as have come meanwhile.

    Answers None for one that is not plainly to run: it is looked at under its group's lock.
    """

    def __init__(self, app: App) -> None:
        super().__init__()
        self._app = app

    async def handle_all(self, items: Sequence[LeasedStep]) -> Sequence[BegunRow | None]:
        """Write down which of the steps run."""
        async with self._app.transaction() as t:
            rows = await t.run(records.BEGIN_STEPS, rows=list(items))
        begun = {(row.group_id, row.number): row for row in rows}
        return [begun.get((one.group_id, one.number)) for one in items]


async def save_group(
    t: AppTransaction,
    group: GroupRow,
    state: GroupState,
    *,
    reason: str | None = None,
    pivot: str | None = None,
) -> None:
    """Write down where a group stands. The first reason, and the first pivot, are kept."""
    await t.run(records.SAVE_GROUP, id=group.id, state=state, reason=reason, pivot=pivot, now=None)


def _between(seconds: float) -> float:
    return min(max(seconds, LOOK_SECONDS_MIN), LOOK_SECONDS_MAX)


_ANY = step_decisions.GroupFacts(state=GroupState.RUNNING)

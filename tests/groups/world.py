"""A group that runs in memory: a small engine, nodes that fail, workers that die, time by hand.

It carries out what the decisions of groups say, as the real jobs do, and judges what came of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import msgspec

from inturn.groups import group_decisions, step_decisions
from inturn.groups.group_decisions import GroupChange
from inturn.groups.model import Effect, GroupState, StepState
from inturn.groups.plan import Graph, backwards
from inturn.groups.step_decisions import GroupFacts, Happened, Move, StepFacts, Then


class BrokenRule(AssertionError):
    """A promise of groups was broken; says which."""


def random_graph(
    random: Random, *, irreversible: bool = True
) -> tuple[list[list[int]], list[StepFacts]]:
    """Return some steps, and which each comes after."""
    count = random.randint(1, 9)
    after = [
        sorted(random.sample(range(number), min(number, random.randint(0, 3))))
        for number in range(count)
    ]
    steps = [
        StepFacts(
            attempts_max=random.randint(1, 3),
            undo_attempts_max=random.randint(1, 3),
            has_verify=random.random() < 0.6,
            idempotent=random.random() < 0.5,
            irreversible=irreversible and random.random() < 0.08,
        )
        for _ in range(count)
    ]
    return after, steps


@dataclass
class Job:
    step: int | None  # None: it looks at the whole group
    is_undo: bool = False
    after: set[int] = field(default_factory=set)
    after_failed: set[int] = field(default_factory=set)
    state: str = "waiting"  # waiting | running | done | dead | cancelled
    at: float = 0.0


class World:
    """One group, what is really there on its nodes, and the jobs that carry it on."""

    def __init__(
        self, after: Graph, steps: list[StepFacts], random: Random, *, trouble: float
    ) -> None:
        self.after, self.steps, self.random, self.trouble = after, list(steps), random, trouble
        self.group = GroupFacts(state=GroupState.RUNNING)
        self.now = 0.0
        self.there: set[int] = set()
        self.acting: set[int] = set()  # steps that have begun, and whose action has not
        self.coming: dict[int, float] = {}  # applied later, although its do has raised or died
        self.undo_began = self.pivoted = False
        self.may_run_again: set[int] = set()  # for a person has looked
        self.jobs: list[Job] = [Job(number) for number in range(len(steps))]
        self.job_of = list(range(len(steps)))
        self.undo_of: dict[int, int] = {}
        for number, job in enumerate(self.jobs):
            job.after = set(after[number])
        sinks = {number for number, one in enumerate(backwards(after)) if not one}
        self.watchers = [
            self._add(Job(None, after=sinks)),
            self._add(Job(None, after_failed=set(range(len(steps))))),
        ]
        self.running: dict[int, Iterator[None]] = {}

    # The engine

    def run(self) -> GroupState:
        """Run until nothing is left to run."""
        for _ in range(5_000):
            for number, at in list(self.coming.items()):
                if at <= self.now:
                    del self.coming[number]
                    self.there.add(number)
            self._release()
            ready = [
                number
                for number, job in enumerate(self.jobs)
                if job.state == "waiting" and not job.after and not job.after_failed
                and job.at <= self.now
            ]  # fmt: skip
            choices = [*ready, *self.running]
            if not choices:
                later = [
                    job.at
                    for job in self.jobs
                    if job.state == "waiting" and not job.after and not job.after_failed
                ]
                if not later:
                    return self._ended()
                self.now = min([*later, *self.coming.values()])
                continue
            self.now += self.random.choice([0.0, 0.1, 1.0])
            chosen = self.random.choice(choices)
            if chosen in self.running:
                self._go_on(chosen)
            else:
                self.jobs[chosen].state = "running"
                self.running[chosen] = self._handler(chosen)
        raise BrokenRule("a group never ends")

    def _go_on(self, number: int) -> None:
        job = self.jobs[number]
        if self.random.random() < 0.15 * self.trouble:  # its worker dies
            del self.running[number]
            if job.step in self.acting:
                self.acting.discard(job.step)
                if not job.is_undo and self.random.random() < 0.5:
                    self.coming[job.step] = self.now + 5.0  # what it has started runs on
            is_buried = job.step is not None and self.random.random() < 0.1  # after many deaths
            job.state = "dead" if is_buried else "waiting"
            return
        try:
            next(self.running[number])
        except StopIteration:
            del self.running[number]

    def _release(self) -> None:
        for job in self.jobs:
            if job.state != "waiting":
                continue
            if any(self.jobs[one].state == "cancelled" for one in job.after):
                raise BrokenRule("a job waits for one that was cancelled, and is buried for it")
            job.after = {one for one in job.after if self.jobs[one].state != "done"}
            if job.after_failed:
                states = {self.jobs[one].state for one in job.after_failed}
                if states & {"dead", "cancelled"}:
                    job.after_failed = set()
                elif states == {"done"}:
                    job.state = "cancelled"

    def _add(self, job: Job) -> int:
        self.jobs.append(job)
        return len(self.jobs) - 1

    def _cancel(self, number: int) -> None:
        if self.jobs[number].state == "waiting":
            self.jobs[number].state = "cancelled"

    def _bury_waiting(self, number: int) -> None:
        """Bury what waits for a job that was cancelled, as the engine does."""
        for other, job in enumerate(self.jobs):
            if job.state == "waiting" and number in job.after:
                job.state = "dead"
                self._bury_waiting(other)

    # What jobs do

    def _handler(self, number: int) -> Iterator[None]:
        job = self.jobs[number]
        if job.step is None:
            yield
            self._advance(number)
        else:
            yield from self._attempt(number, job.step, is_undo=job.is_undo)

    def _attempt(self, job: int, step: int, *, is_undo: bool) -> Iterator[None]:
        move = self._next_move(job, step, is_undo=is_undo)
        if move is Move.CONFIRM:
            for before in self.after[step]:
                if not self.steps[before].has_verify:
                    continue
                yield
                happened = self._asked(before)
                if happened is not Happened.APPLIED:
                    failed = happened is Happened.ASK_FAILED
                    self._settle(job, step, happened if failed else Happened.UNCONFIRMED)
                    return
            if self._next_move(job, step, is_undo=False) is Move.CONFIRM:
                self.group = msgspec.structs.replace(self.group, has_begun_irreversible=True)
                move = Move.RUN
        if move not in (Move.RUN, Move.ASK):
            self.jobs[job].state = "done"
            return
        if move is Move.RUN:
            begun = step_decisions.undo_begun if is_undo else step_decisions.begun
            self.steps[step] = begun(self.steps[step])
            self.acting.add(step)
            yield
            self.acting.discard(step)
            happened = self._act_undo(step) if is_undo else self._act(step)
            yield
            if self._settle(job, step, happened):
                return
        yield
        self._settle(job, step, self._asked(step))

    def _next_move(self, job: int, step: int, *, is_undo: bool) -> Move:
        if self._job_of(step) != job:
            return Move.NOTHING
        decide = step_decisions.next_undo if is_undo else step_decisions.next_move
        return decide(self.group, self.steps[step])

    def _settle(self, job: int, step: int, happened: Happened) -> bool:
        """Write down what happened; say whether the attempt has ended."""
        if self.jobs[job].is_undo:
            outcome = step_decisions.after_undo(self.steps[step], happened)
        else:
            outcome = step_decisions.after(self.group, self.steps[step], happened)
        self.steps[step] = outcome.facts
        if outcome.group is not None:
            self.group = msgspec.structs.replace(self.group, state=outcome.group)
        match outcome.then:
            case Then.ASK:
                return False
            case Then.DONE:
                self.jobs[job].state = "done"
            case Then.BURY:
                self.jobs[job].state = "dead"
            case _:
                pause = self.random.choice([0.0, 2.0])
                self.jobs[job].state, self.jobs[job].at = "waiting", self.now + pause
        return True

    def _advance(self, number: int) -> None:
        dead = set()
        for step in range(len(self.steps)):
            if self.jobs[self._job_of(step)].state in ("dead", "cancelled"):
                dead.add(step)
        self.jobs[number].state = "done"
        self._carry_out(group_decisions.next_change(self.group, self.steps, self.after, dead=dead))

    def _carry_out(self, change: GroupChange) -> None:
        self.group = msgspec.structs.replace(self.group, state=change.state)
        for step, state in change.steps.items():
            self.steps[step] = msgspec.structs.replace(self.steps[step], state=state)
        for one in self.watchers[change.only_deaths :]:
            self._cancel(one)
        for step in change.cancel:
            self._cancel(self.job_of[step])
        for step in change.jobs:
            self._cancel(self._job_of(step))
        for step in change.jobs:
            if self.jobs[self._job_of(step)].state == "cancelled":
                self._bury_waiting(self._job_of(step))
        for step in change.jobs:
            made = self._add(Job(step, is_undo=self.steps[step].state.is_being_undone))
            (self.undo_of if self.jobs[made].is_undo else self.job_of)[step] = made
        for step, waits in change.jobs.items():
            self.jobs[self._job_of(step)].after = {self._job_of(one) for one in waits}
        watched = {self._job_of(one) for one in change.watch}
        if watched:
            react = self._add(Job(None, after_failed=set(watched)))
            first = self.watchers[0] if change.only_deaths else self._add(Job(None, after=watched))
            self.watchers = [first, react]

    def _job_of(self, step: int) -> int:
        is_back = self.steps[step].state.is_being_undone and step in self.undo_of
        return self.undo_of[step] if is_back else self.job_of[step]

    # What a person does

    def ask_undo(self) -> bool:
        """Undo the group, whether or not it is done."""
        if step_decisions.why_not_undo(self.group) is not None:
            return False
        self.group = msgspec.structs.replace(self.group, state=GroupState.STOPPING)
        self._add(Job(None))
        return True

    def retry(self, step: int) -> bool:
        """Try a step again."""
        is_retried = self._decide(step, step_decisions.retried(self.group, self.steps[step]))
        if is_retried:
            self.may_run_again.add(step)
        return is_retried

    def skip(self, step: int) -> bool:
        """Leave a step as it is."""
        return self._decide(step, step_decisions.skipped(self.group, self.steps[step]))

    def drop(self) -> None:
        """Drop all dead letters, which buries what waits for them."""
        for number, job in enumerate(self.jobs):
            if job.state == "dead":
                job.state = "cancelled"
                self._bury_waiting(number)

    def _decide(self, step: int, facts: StepFacts | None) -> bool:
        if facts is None:
            return False
        self.steps[step] = facts
        self._carry_out(group_decisions.decided(self.group, self.steps, self.after, step))
        return True

    # Nature

    def _act(self, step: int) -> Happened:
        facts = self.steps[step]
        if self.undo_began:
            raise BrokenRule(f"step {step} ran although the undo of its group had begun")
        for before in self.after[step]:
            if before not in self.there and self.steps[before].state is not StepState.SKIPPED:
                raise BrokenRule(f"step {step} ran before {before}, which it comes after")
        if step in self.coming:
            return Happened.RAISED  # it waited for that, as long as it may take
        if step in self.there and not (facts.idempotent or step in self.may_run_again):
            raise BrokenRule(f"step {step} ran again without being verified, and was applied")
        if facts.irreversible:
            self.pivoted = True
        match self._nature():
            case "rejected":
                return Happened.REJECTED
            case "unreachable":
                return Happened.NOTHING_DONE
            case "raised":
                return Happened.RAISED
            case "applied and raised":
                self.there.add(step)
                return Happened.RAISED
            case "timed out":
                self.coming[step] = self.now + 5.0
                return Happened.RAISED
        self.there.add(step)
        return Happened.RETURNED

    def _act_undo(self, step: int) -> Happened:
        if self.pivoted:
            raise BrokenRule(f"step {step} was undone although an irreversible step had begun")
        self.undo_began = True
        for follower in self._followers(step):
            if self.steps[follower].state.is_being_undone or self.steps[follower].state in (
                StepState.APPLIED, StepState.POSSIBLY_APPLIED,
            ):  # fmt: skip
                raise BrokenRule(f"undo order: {step} was undone before {follower}, after it")
        if step in self.coming:
            return Happened.RAISED  # it waited for that, as long as it may take
        match self._nature():
            case "rejected":
                return Happened.REJECTED
            case "unreachable":
                return Happened.NOTHING_DONE
            case "raised":
                return Happened.RAISED
            case "applied and raised":
                self.there.discard(step)
                return Happened.RAISED
        self.there.discard(step)
        return Happened.RETURNED

    def _asked(self, step: int) -> Happened:
        if not self.steps[step].has_verify and step not in self.coming:
            return Happened.CANNOT_TELL
        trouble = self.random.random() / self.trouble if self.trouble else 1.0
        if trouble < 0.1:
            return Happened.ASK_FAILED
        if step in self.coming:  # the node says so
            return step_decisions.ANSWERS[Effect.RUNNING]
        if trouble < 0.15:
            return Happened.CANNOT_TELL
        return step_decisions.ANSWERS[Effect.APPLIED if step in self.there else Effect.NOT_APPLIED]

    def _nature(self) -> str:
        if self.random.random() > 0.5 * self.trouble:
            return "good"
        return self.random.choice(
            ["rejected", "unreachable", "raised", "applied and raised", "timed out"]
        )

    def _followers(self, step: int) -> set[int]:
        direct = backwards(self.after)
        found: set[int] = set()
        wanted = [step]
        while wanted:
            for one in direct[wanted.pop()]:
                if one not in found:
                    found.add(one)
                    wanted.append(one)
        return found

    # The end

    def _ended(self) -> GroupState:
        state, states = self.group.state, [step.state for step in self.steps]
        numbers = range(len(states))
        if state is GroupState.DONE:
            missing = [n for n in numbers if n not in self.there and states[n] != "skipped"]
            if missing:
                raise BrokenRule(f"the group is done, and steps {missing} are not there")
        elif state is GroupState.UNDONE:
            left = [n for n in self.there | set(self.coming) if states[n] != "undo_skipped"]
            if left:
                raise BrokenRule(f"the group is undone, and steps {left} are still there")
        elif state is GroupState.STUCK:
            failed = [n for n in numbers if states[n].is_failed or states[n] == "not_undone"]
            if not failed:
                raise BrokenRule("the group is stuck, and does not say on what")
            if not self.group.has_begun_irreversible:
                forgotten = {*self.there, *self.coming} - set(failed)
                forgotten = {n for n in forgotten if states[n] != "undo_skipped"}
                if forgotten:
                    raise BrokenRule(f"steps {forgotten} are still there and are not listed")
        else:
            raise BrokenRule(f"nothing runs any more, and the group is {state}: {states}")
        return state

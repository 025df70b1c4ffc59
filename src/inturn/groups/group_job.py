"""The job that advances a group: when all has ended, or a step's job died before it said how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec

from inturn.groups import records
from inturn.groups.group_decisions import GroupChange, next_change
from inturn.groups.model import QUEUE, Action, JobCall, Step, StepState, queue_of
from inturn.groups.plan import in_order
from inturn.groups.records import FactsRow, GroupRow, NewState
from inturn.groups.step_attempt import save_group
from inturn.model import bounds
from inturn.model.ids import new_id
from inturn.model.job import JobState, NewJob
from inturn.queue.app import App
from inturn.queue.context import Context
from inturn.queue.job import Call
from inturn.queue.transaction import AppTransaction

STEP, UNDO, ADVANCE = "groups.step", "groups.undo", "groups.advance"


async def advance(app: App, ctx: Context, group_id: str) -> None:
    """Look at a group as a whole, and do what is to be done."""
    ended = await ended_jobs(app, group_id)
    async with ctx.transaction() as t:
        rows = await t.run(records.LOCK_GROUP, id=group_id)
        if not rows:
            return
        [group] = rows
        steps = await t.run(records.FACTS, id=group_id)
        dead = {
            step.number: state
            for step in steps
            if not step.state.is_failed
            and (job := _current_job(step)) is not None
            and (state := ended.get(job)) in (JobState.DEAD, JobState.CANCELLED)
        }
        change = next_change(
            group.facts,
            [step.facts for step in steps],
            [step.after for step in steps],
            dead=dead,
        )
        errors = {
            number: f"its job was {dead[number]}"
            for number, state in change.steps.items()
            if number in dead and state is not StepState.CANCELLED
        }
        await carry_out(app, t, group, steps, change, ended=ended, errors=errors, this=ctx.id)


async def carry_out(
    app: App,
    t: AppTransaction,
    group: GroupRow,
    steps: Sequence[FactsRow],
    change: GroupChange,
    *,
    ended: Mapping[UUID, JobState | None],
    errors: Mapping[int, str] = MappingProxyType({}),
    this: UUID | None = None,
) -> None:
    """Write down what becomes of a group, and submit and cancel the jobs that carry it on.

    ``ended``: which of its jobs had ended. ``this``: the job that looks at it.
    """
    watchers = [new_id(), new_id()]
    now = {number: change.steps.get(number, step.state) for number, step in enumerate(steps)}
    # Smaller ids go first where jobs are cancelled, and who waits for others must.
    order = in_order([step.after for step in steps])
    goes_back = any(now[number].is_being_undone for number in change.jobs)
    ordered = order if goes_back else order[::-1]
    made = {number: new_id() for number in ordered if number in change.jobs}
    cancelled = [UUID(steps[number].job) for number in change.cancel]
    cancelled += [job for number in made if (job := _current_job(steps[number])) is not None]
    watching_now = [group.react] if change.only_deaths else [group.finish, group.react]
    cancelled += [UUID(one) for one in watching_now if one is not None]
    for job in cancelled:
        if job not in ended and job != this:
            await t.cancel(job)
    changed = [
        NewState(
            group_id=group.id,
            number=number,
            state=now[number],
            job=str(made[number]) if number in made and not goes_back else None,
            undo_job=str(made[number]) if number in made and goes_back else None,
            error=errors.get(number),
        )
        for number in made.keys() | change.steps.keys()
    ]
    await t.run_many(records.SAVE_STATES, changed)
    reason = None
    if errors:
        number = min(errors)
        reason = f"step {steps[number].name!r} failed: {errors[number]}"
    await save_group(t, group, change.state, reason=reason)

    def job_of(number: int) -> UUID:
        if number in made:
            return made[number]
        step = steps[number]
        return UUID(step.undo_job if now[number].is_being_undone else step.job)

    new = []
    for number, id in made.items():
        step = steps[number].step
        kind, action = (UNDO, step.undo) if goes_back else (STEP, step.do)
        after_these = frozenset(map(job_of, change.jobs[number]))
        new.append(step_job(kind, group.id, number, step, action, after=after_these, id=id))
    watched = frozenset(map(job_of, change.watch))
    finish = str(watchers[0]) if watched else None
    if change.only_deaths:
        finish = group.finish
    if watched:
        new += watcher_jobs(
            group.id, None if change.only_deaths else watchers[0], watchers[1], watched, watched
        )
    await t.run(
        records.SAVE_WATCH,
        id=group.id,
        finish=finish,
        react=str(watchers[1]) if watched else None,
    )
    await t.submit_many([Call(one, None, app) for one in new])


def watcher_jobs(
    group: str, finish: UUID | None, react: UUID, ended: Iterable[UUID], watched: Iterable[UUID]
) -> list[NewJob]:
    """Return the jobs that look at a group: when jobs have ended, and when one has died."""

    def look_job(id: UUID, after: Iterable[UUID], after_failed: Iterable[UUID]) -> NewJob:
        return NewJob(
            kind=ADVANCE,
            payload=payload_of(group),
            queue=QUEUE,
            attempts_max=bounds.ATTEMPTS_MAX,
            after=frozenset(after),
            after_failed=frozenset(after_failed),
            id=id,
        )

    jobs = [look_job(react, (), watched)]
    return jobs if finish is None else [look_job(finish, ended, ()), *jobs]


def payload_of(group: str) -> str:
    """Return the payload of a job that looks at a group."""
    return msgspec.json.encode({"group": group}).decode()


def step_job(
    kind: str,
    group: str,
    number: int,
    step: Step,
    action: Action | None,
    *,
    after: frozenset[UUID],
    id: UUID,
) -> NewJob:
    """Return the job of a step, or of its undo: only workers that have the job it calls take it."""
    calls = [one for one in (action, step.verify) if isinstance(one, JobCall)]
    payload: dict[str, Any] = {"group": group, "number": number}
    if len(calls) > 1:  # the other one is looked for when its turn has come
        payload["needs"] = [calls[1].kind]
    return NewJob(
        kind=kind_of(kind, calls[0].kind) if calls else kind,
        payload=msgspec.json.encode(payload).decode(),
        queue=queue_of(step.node),
        attempts_max=bounds.ATTEMPTS_MAX,
        after=after,
        id=id,
    )


def kind_of(kind: str, called: str) -> str:
    """Return the kind of jobs of steps that call a job of the app."""
    return f"{kind}:{called}"


def _current_job(step: FactsRow) -> UUID | None:
    """Return the job that a step waits for, or failed in, on its way forward or back."""
    if step.state.is_being_undone:
        return None if step.undo_job is None else UUID(step.undo_job)
    is_open = step.state.is_uncertain or step.state is StepState.PENDING
    return UUID(step.job) if is_open or step.state.is_failed else None


async def ended_jobs(app: App, group_id: str) -> Mapping[UUID, JobState | None]:
    """Return how those of a group's jobs ended that have: of its steps, and that look at it.

    Before the group is locked: who holds a lock asks for no second connection. A job that dies
    meanwhile is heard of by the watchers that are submitted under the lock.
    """
    groups = await app.run(lambda store: store.read(records.GROUP, id=group_id))
    steps = await app.run(lambda store: store.read(records.FACTS, id=group_id))
    jobs = [job for step in steps if (job := _current_job(step)) is not None]
    jobs += [UUID(job) for one in groups for job in (one.finish, one.react) if job is not None]
    return await app.run(lambda store: store.ended(jobs))

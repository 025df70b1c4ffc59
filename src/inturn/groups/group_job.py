"""The job that advances a group: when all has ended, or a step's job died unheard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    failed = await _failed_jobs(app, group_id)
    async with ctx.transaction() as t:
        rows = await t.run(records.LOCK_GROUP, id=group_id)
        if not rows:
            return
        [group] = rows
        steps = await t.run(records.FACTS, id=group_id)
        gone = {step.number: failed[job] for step in steps if (job := _current_job(step)) in failed}
        change = next_change(
            group.facts,
            [step.facts for step in steps],
            [step.after for step in steps],
            gone=gone,
        )
        errors = {number: f"its job was {state}" for number, state in gone.items()}
        await carry_out(app, t, group, steps, change, errors=errors, this=str(ctx.id))


async def carry_out(
    app: App,
    t: AppTransaction,
    group: GroupRow,
    steps: Sequence[FactsRow],
    change: GroupChange,
    *,
    errors: dict[int, str] | None = None,
    this: str | None = None,
    reason: str | None = None,
) -> None:
    """Write down what becomes of a group, and submit and cancel the jobs that carry it on."""
    watchers = [new_id(), new_id()]
    after = [step.after for step in steps]
    # Smaller ids go first where jobs are cancelled, and who waits for others must.
    undo = {number: new_id() for number in in_order(after) if number in change.undo}
    jobs = {number: str(id) for number, id in undo.items()}
    cancelled = [steps[number].job for number in change.cancel]
    for number in undo:
        old = steps[number].undo_job
        if old is not None and steps[number].state.is_being_undone:
            cancelled.append(old)
    watching_now = [group.react] if change.only_deaths else [group.finish, group.react]
    cancelled += [one for one in watching_now if one is not None and one != this]
    for job in cancelled:
        await t.cancel(UUID(job))
    states = {number: steps[number].state for number in undo} | change.steps
    changed = [
        NewState(
            group_id=group.id,
            number=number,
            state=state,
            undo_job=jobs.get(number),
            error=(errors or {}).get(number),
        )
        for number, state in states.items()
    ]
    await t.run_many(records.SAVE_STATES, changed)
    if reason is None and errors:
        number = min(errors)
        reason = f"step {steps[number].name!r} failed: {errors[number]}"
    await save_group(t, group, change.state, reason=reason)
    now = {number: change.steps.get(number, step.state) for number, step in enumerate(steps)}

    def job_of(number: int) -> UUID:
        if now[number].is_being_undone:
            return undo.get(number) or UUID(steps[number].undo_job or "")
        return UUID(steps[number].job)

    new = []
    for number, id in undo.items():
        step = steps[number].step
        after_these = frozenset(job_of(one) for one in change.undo[number])
        new.append(step_job(UNDO, group.id, number, step, step.undo, after=after_these, id=id))
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
    """Return the jobs that look at a group when jobs have ended, and when one died unheard."""

    def look_job(id: UUID, after: Iterable[UUID], after_failed: Iterable[UUID]) -> NewJob:
        return NewJob(
            kind=ADVANCE,
            payload=msgspec.json.encode({"group": group}).decode(),
            queue=QUEUE,
            attempts_max=bounds.ATTEMPTS_MAX,
            after=frozenset(after),
            after_failed=frozenset(after_failed),
            id=id,
        )

    jobs = [look_job(react, (), watched)]
    return jobs if finish is None else [look_job(finish, ended, ()), *jobs]


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
    """Return the job that a step waits for, on its way forward or back."""
    if step.state.is_being_undone:
        return None if step.undo_job is None else UUID(step.undo_job)
    is_open = step.state.is_uncertain or step.state is StepState.PENDING
    return UUID(step.job) if is_open else None


async def _failed_jobs(app: App, group_id: str) -> dict[UUID | None, JobState]:
    """Return the jobs that a group's steps wait for and that died or were cancelled.

    Before the group is locked: who holds a lock asks for no second connection. A job that dies
    meanwhile is heard of by the watchers that are submitted under the lock.
    """
    steps = await app.run(lambda store: store.read(records.FACTS, id=group_id))
    jobs = [job for step in steps if (job := _current_job(step)) is not None]
    ended = await app.run(lambda store: store.ended(jobs))
    failed = (JobState.DEAD, JobState.CANCELLED)
    return {job: state for job, state in ended.items() if state in failed}

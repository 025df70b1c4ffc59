"""Why a step is where it is, in one honest sentence or two."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from inturn.groups.model import GroupState, GroupView, StepState, StepView

_ENDED_WELL = (StepState.APPLIED, StepState.SKIPPED)
_LISTED_MAX = 5


def explained(
    group: GroupView,
    step: StepView,
    steps: Sequence[StepView],
    *,
    job: str | None = None,
    unserved: Sequence[str] = (),
) -> str:
    """Say why a step is where it is, and what it waits for.

    ``job``: what the engine says of its job. ``unserved``: why no living worker can run it.
    """
    said = [_state(group, step, steps)]
    is_waiting = step.state is StepState.PENDING or step.state.is_being_undone
    if group.paused_by is not None and is_waiting:
        said.append(f"The group is paused by {group.paused_by}.")
    if is_waiting:
        said += unserved
    if job is not None and is_waiting and not unserved and not _open_before(step, steps):
        said.append(job)
    if step.error is not None and step.state is not StepState.APPLIED:
        said.append(f"The last error: {step.error}.")
    if step.answer is not None:
        said.append(f"Its verify said last: {step.answer}.")
    return " ".join(said)


def _state(group: GroupView, step: StepView, steps: Sequence[StepView]) -> str:
    name = f"step {step.name!r}"
    before = _open_before(step, steps)
    attempts = f"attempt {step.attempts} of {step.attempts_max}"
    match step.state:
        case StepState.PENDING if before:
            return f"{name} waits for {_some(before)}."
        case StepState.PENDING if step.attempts:
            return f"{name} is not applied and will be tried again; {attempts} has failed."
        case StepState.PENDING:
            return f"{name} waits for a worker of node {step.node!r}."
        case StepState.RUNNING:
            return f"{name} is running, {attempts}; should its worker die, it is verified first."
        case StepState.UNKNOWN:
            return (
                f"{name} began, and nobody knows yet whether it was applied: it is verified before "
                f"anything runs again."
            )
        case StepState.APPLIED:
            return f"{name} is applied."
        case StepState.NOT_APPLIED:
            return f"{name} failed, and nothing of it is there.{_stuck(group, step)}"
        case StepState.POSSIBLY_APPLIED:
            return f"{name} failed, and may have been applied.{_stuck(group, step)}"
        case StepState.CANCELLED:
            return f"{name} never ran: {group.reason or 'its group was stopped'}."
        case StepState.SKIPPED:
            return f"{name} was skipped by a person: {step.why}."
        case StepState.TO_UNDO:
            after = [one for one in steps if step.name in one.after and one.state.is_being_undone]
            waits = f"; first {_some(after)} must be undone" if after else ""
            return f"{name} is to be undone on node {step.node!r}{waits}."
        case StepState.UNDOING:
            return f"{name} is being undone, attempt {step.undo_attempts}."
        case StepState.UNDO_UNKNOWN:
            return f"the undo of {name} began, and how it ended is being found out."
        case StepState.UNDONE:
            return f"{name} is undone."
        case StepState.NOT_UNDONE:
            return f"{name} could not be undone.{_stuck(group, step)}"
    return f"{name} was left as it is by a person: {step.why}."


def _stuck(group: GroupView, step: StepView) -> str:
    if group.state is not GroupState.STUCK:
        return ""
    named = f"{quote(group.name)} {quote(step.name)}"
    return (
        f" The group is stuck on it: `inturn groups retry {named}`, or `inturn groups skip {named} "
        f"--why …`."
    )


def _open_before(step: StepView, steps: Sequence[StepView]) -> list[StepView]:
    if step.state is not StepState.PENDING:
        return []
    return [one for one in steps if one.name in step.after and one.state not in _ENDED_WELL]


def _some(steps: Sequence[StepView]) -> str:
    named = ", ".join(f"{one.name!r} ({one.state})" for one in steps[:_LISTED_MAX])
    more = len(steps) - _LISTED_MAX
    return f"{named} and {more:,} more" if more > 0 else named

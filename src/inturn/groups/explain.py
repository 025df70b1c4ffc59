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
    has_verify: bool = False,
    idempotent: bool = False,
    job: str | None = None,
    unserved: Sequence[str] = (),
) -> str:
    """Say why a step is where it is, and what it waits for.

    ``job``: what the engine says of its job. ``unserved``: why no living worker can run it.
    """
    said = [_state(group, step, steps, _after_death(has_verify, idempotent))]
    is_open = step.state is StepState.PENDING or step.state.is_uncertain
    is_open |= step.state.is_being_undone
    if group.paused_by is not None and is_open:
        said.append(f"The group is paused by {group.paused_by}.")
    if is_open:
        said += unserved
    is_waiting = is_open and step.state is not StepState.RUNNING
    if job is not None and is_waiting and not unserved and not _open_before(step, steps):
        said.append(job)
    if step.error is not None and step.state is not StepState.APPLIED:
        said.append(f"The last error: {step.error}.")
    if step.answer is not None:
        said.append(f"Its verify said last: {step.answer}.")
    return " ".join(said)


def _after_death(has_verify: bool, idempotent: bool) -> str:
    """Say what becomes of a running step if its worker dies."""
    if has_verify:
        return "it is verified before anything runs again"
    if idempotent:
        return "it runs again"
    return "nobody can tell how far it came, for it has no verify: it counts as failed"


def _state(group: GroupView, step: StepView, steps: Sequence[StepView], after_death: str) -> str:
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
            return f"{name} is running, {attempts}; if its worker dies, {after_death}."
        case StepState.UNKNOWN:
            return f"{name} began, and nobody knows yet whether it was applied: {after_death}."
        case StepState.APPLIED:
            return f"{name} is applied."
        case StepState.NOT_APPLIED:
            return f"{name} failed, and nothing of it is there.{_stuck_on(group, step, steps)}"
        case StepState.POSSIBLY_APPLIED:
            return f"{name} failed, and may have been applied.{_stuck_on(group, step, steps)}"
        case StepState.CANCELLED:
            return f"{name} never ran: {group.reason or 'its group was stopped'}."
        case StepState.SKIPPED:
            return f"{name} was skipped by a person: {step.why}."
        case StepState.TO_UNDO:
            after = [one for one in steps if step.name in one.after and one.state.is_being_undone]
            waits = f"; first {_some(after)} must be undone" if after else ""
            return f"{name} is to be undone on node {step.node!r}{waits}."
        case StepState.UNDOING:
            attempts = f"attempt {step.undo_attempts} of {step.undo_attempts_max}"
            return f"{name} is being undone, {attempts}."
        case StepState.UNDO_UNKNOWN:
            return f"the undo of {name} began, and how it ended is being found out."
        case StepState.UNDONE:
            return f"{name} is undone."
        case StepState.NOT_UNDONE:
            return f"{name} could not be undone.{_stuck_on(group, step, steps)}"
    return f"{name} was left as it is by a person: {step.why}."


def _stuck_on(group: GroupView, step: StepView, steps: Sequence[StepView]) -> str:
    if group.state is not GroupState.STUCK:
        return ""
    if group.pivot is None and step.state is not StepState.NOT_UNDONE:  # on its way back
        return f" The group is stuck on {_some([s for s in steps if s.state == 'not_undone'])}."
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

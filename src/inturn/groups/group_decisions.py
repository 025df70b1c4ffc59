"""What becomes of a whole group: pure functions of where its steps stand.

One of its jobs looks at it when all has ended, or when a step's job died and nobody wrote down how.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from inturn.groups.model import GroupState, StepState
from inturn.groups.plan import Graph, backwards, chain, in_order
from inturn.groups.step_decisions import GroupFacts, StepFacts


class GroupChange(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a whole group: its state, its steps', and the jobs that carry it on.

    - ``cancel``: steps whose jobs are cancelled, in this order;
    - ``jobs``: steps that get a new job, forward or back, each with those whose jobs it waits for;
    - ``watch``: steps whose jobs it waits for, to be looked at again when all have ended, or one
      ended and nobody wrote down how; ``only_deaths``: only then.
    """

    state: GroupState
    steps: dict[int, StepState] = {}
    cancel: list[int] = []
    jobs: dict[int, list[int]] = {}
    watch: list[int] = []
    only_deaths: bool = False


def next_change(
    group: GroupFacts, steps: Sequence[StepFacts], after: Graph, *, dead: Collection[int] = ()
) -> GroupChange:
    """Look at a whole group, and say what is to be done.

    ``dead``: steps whose jobs ended and wrote nothing down: the engine buried them after crashes,
    or a person cancelled or dropped them.
    """
    states = [step.state for step in steps]
    if group.state in (GroupState.DONE, GroupState.UNDONE):
        return GroupChange(state=group.state)
    doubtful = {number for number, step in enumerate(steps) if step.is_doubtful}
    if group.state is GroupState.STOPPING:
        return _stop(states, after, dead, doubtful)
    if not group.goes_forward:
        return _undo_on(states, after, dead)
    changed = {}
    waiting = set[int]()
    for number in in_order(after):
        state = states[number]
        if _is_held(number, states, after, waiting):
            waiting.add(number)
        elif number in dead and not _has_ended(state):
            may_be_there = state.is_uncertain or number in doubtful
            states[number] = changed[number] = (
                StepState.POSSIBLY_APPLIED if may_be_there else StepState.NOT_APPLIED
            )
    if any(state.is_failed for state in states) and not group.has_begun_irreversible:
        return _stop(states, after, (), doubtful, changed)
    change = _forward(states, after)
    return msgspec.structs.replace(change, steps=changed, only_deaths=bool(change.watch))


def decided(
    group: GroupFacts, steps: Sequence[StepFacts], after: Graph, number: int
) -> GroupChange:
    """Say what is to be done when a person has said of a step to try it again, or to skip it."""
    states = [step.state for step in steps]
    if group.has_begun_irreversible:
        change, followers = _forward(states, after), _followers(after, number)
        jobs = {
            one: [before for before in after[one] if not states[before].is_passed]
            for one in change.watch
            if one == number or (one in followers and states[one] is StepState.PENDING)
        }
    else:
        watch = [one for one, state in enumerate(states) if state.is_being_undone]
        change = GroupChange(state=state_of_undo(states), watch=watch)
        jobs = undo_anew(states, after, number)
    return msgspec.structs.replace(change, steps={number: states[number]}, jobs=jobs)


def _forward(states: Sequence[StepState], after: Graph) -> GroupChange:
    """Say where a group stands on its way forward, and which steps' ends it waits for."""
    if all(state.is_passed for state in states):
        return GroupChange(state=GroupState.DONE)
    waiting = set[int]()
    for number in in_order(after):
        if _is_held(number, states, after, waiting):
            waiting.add(number)
    watch = [n for n, state in enumerate(states) if not _has_ended(state) and n not in waiting]
    failed = any(state.is_failed for state in states)
    return GroupChange(state=GroupState.STUCK if failed else GroupState.RUNNING, watch=watch)


def _is_held(
    number: int, states: Sequence[StepState], after: Graph, waiting: Collection[int]
) -> bool:
    """Say whether a step waits for one that has failed, or for one that does: it gets a new job
    when that is retried, whatever became of its own.
    """
    return states[number] is StepState.PENDING and any(
        before in waiting or states[before].is_failed for before in after[number]
    )


def _followers(after: Graph, number: int) -> set[int]:
    """Return all that comes after a step, directly or not."""
    return set(chain(backwards(after), number)) - {number}


def _stop(
    states: list[StepState],
    after: Graph,
    dead: Collection[int],
    doubtful: Collection[int],
    changed: dict[int, StepState] | None = None,
) -> GroupChange:
    """Cancel what has not begun, wait for what runs; then begin the undo."""
    changed = dict(changed or {})
    cancel, watch, to_undo = [], [], []
    for number in reversed(in_order(after)):  # who waits for others goes first
        state = states[number]
        if state is StepState.PENDING:
            changed[number] = StepState.CANCELLED
            cancel.append(number)
            if number in doubtful:  # it was to be tried again
                changed[number] = StepState.POSSIBLY_APPLIED
                to_undo.append(number)
        elif state.is_uncertain and number not in dead:
            watch.append(number)
        elif state.is_uncertain:
            changed[number] = StepState.POSSIBLY_APPLIED
            to_undo.append(number)
        elif state in (StepState.APPLIED, StepState.POSSIBLY_APPLIED):
            to_undo.append(number)
    if watch:
        return GroupChange(state=GroupState.STOPPING, steps=changed, cancel=cancel, watch=watch)
    if not to_undo:
        return GroupChange(state=GroupState.UNDONE, steps=changed, cancel=cancel)
    changed |= dict.fromkeys(to_undo, StepState.TO_UNDO)
    now = [changed.get(number, state) for number, state in enumerate(states)]
    return GroupChange(
        state=GroupState.UNDOING,
        steps=changed,
        cancel=cancel,
        jobs=undo_waits(now, after, to_undo),
        watch=to_undo,
    )


def _undo_on(states: list[StepState], after: Graph, dead: Collection[int]) -> GroupChange:
    """Go on with an undo: past those that died, to its end."""
    changed = {number: StepState.NOT_UNDONE for number in dead if states[number].is_being_undone}
    states = [changed.get(number, state) for number, state in enumerate(states)]
    watch = [number for number, state in enumerate(states) if state.is_being_undone]
    if not watch:
        return GroupChange(state=state_of_undo(states), steps=changed)
    # Jobs that wait for a dead one would wait for ever: they are made anew.
    again = [number for number in watch if changed and states[number] is StepState.TO_UNDO]
    jobs = undo_waits(states, after, again)
    return GroupChange(state=GroupState.UNDOING, steps=changed, jobs=jobs, watch=watch)


def state_of_undo(states: Sequence[StepState]) -> GroupState:
    """Say where a group stands on its way back."""
    if any(state.is_being_undone for state in states):
        return GroupState.UNDOING
    return GroupState.STUCK if StepState.NOT_UNDONE in states else GroupState.UNDONE


def undo_waits(
    states: Sequence[StepState], after: Graph, numbers: Sequence[int]
) -> dict[int, list[int]]:
    """Return for each step those whose undo its own waits for: all that come after it, of which
    those count that are still to be undone. What comes after one that is over counts in its place.
    """
    followers = backwards(after)
    waits: dict[int, set[int]] = {}
    for number in reversed(in_order(after)):
        waits[number] = set()
        for follower in followers[number]:
            if states[follower].is_being_undone:
                waits[number].add(follower)
            else:
                waits[number] |= waits[follower]
    return {number: sorted(waits[number]) for number in numbers}


def undo_anew(states: Sequence[StepState], after: Graph, number: int) -> dict[int, list[int]]:
    """Return the undo jobs to make for a step that a person retries: its own, and anew those of
    steps it came after, which wait for it from now on; none if it is skipped.
    """
    if not states[number].is_being_undone:
        return {}
    again = [one for one in chain(after, number) if states[one].is_being_undone]
    return undo_waits(states, after, [one for one in again if states[one] is not StepState.UNDOING])


def _has_ended(state: StepState) -> bool:
    return not (state.is_uncertain or state is StepState.PENDING)

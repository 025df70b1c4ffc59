"""What happens next in a group: pure functions of where it stands and what has happened.

The forward order is the engine's. These functions say what a step's job does when its turn has
come, what its end leads to, and what becomes of the whole group when a step has failed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum

import msgspec

from inturn.groups.model import Effect, GroupState, StepState
from inturn.groups.plan import Graph, backwards, chain, in_order

ASKS_MAX = 5
"""How often a verify that fails itself is asked, until it is taken for one that cannot tell."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a group stands, as far as one step needs to know."""

    state: GroupState
    has_begun_irreversible: bool = False
    is_paused: bool = False

    @property
    def goes_forward(self) -> bool:
        """Whether a step may begin. Past an irreversible step it may although another failed."""
        return self.state is GroupState.RUNNING or (
            self.state is GroupState.STUCK and self.has_begun_irreversible
        )


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Where a step stands, and what is known of it."""

    state: StepState = StepState.PENDING
    attempts: int = 0
    attempts_max: int = 5
    undo_attempts: int = 0
    undo_attempts_max: int = 5
    asks: int = 0  # that failed, one after the other
    is_doubtful: bool = False  # an attempt before may have been applied, and nobody could tell
    has_verify: bool = False
    idempotent: bool = False
    irreversible: bool = False


class Move(StrEnum):
    """What a step's job does next."""

    NOTHING = "nothing"  # its group does not want it any more
    LATER = "later"  # the group is paused
    ASK = "ask"  # the verify, before anything runs again
    CONFIRM = "confirm"  # the verifies of what it comes after, for it is irreversible
    RUN = "run"
    FAIL = "fail"  # it failed before, and its group must not go on past it


class Happened(StrEnum):
    """What came of an action, or of a verify."""

    RETURNED = "returned"
    REJECTED = "rejected"  # it was not applied, and never will be
    NOT_BEGUN = "not_begun"  # its node could not be reached, so nothing of it is there
    RAISED = "raised"  # any other error, a timeout: who knows
    APPLIED = "applied"  # from here on answers of the verify
    NOT_APPLIED = "not_applied"
    STILL_RUNNING = "still_running"
    CANNOT_TELL = "cannot_tell"
    ASK_FAILED = "ask_failed"
    UNCONFIRMED = "unconfirmed"  # what an irreversible step comes after is not applied any more


ANSWERS = {
    Effect.APPLIED: Happened.APPLIED,
    Effect.NOT_APPLIED: Happened.NOT_APPLIED,
    Effect.RUNNING: Happened.STILL_RUNNING,
    Effect.CANNOT_TELL: Happened.CANNOT_TELL,
}


class Then(StrEnum):
    """What becomes of the job."""

    ASK = "ask"  # it goes on: the verify is asked
    DONE = "done"
    BURY = "bury"
    TRY_AGAIN = "try_again"  # after a pause that grows with the attempts
    ASK_AGAIN = "ask_again"  # after a pause that grows with the asks
    LOOK_AGAIN = "look_again"  # after a pause; nothing is used up


class Outcome(msgspec.Struct, frozen=True):
    """What something that happened leads to: the step as it is now, its job, and its group."""

    facts: Facts
    then: Then
    group: GroupState | None = None


# Forward


def next_move(group: Standing, step: Facts) -> Move:
    """Say what a step's job does when its turn has come. An uncertain step is never run."""
    if step.state.is_uncertain:
        if not (group.goes_forward or group.state is GroupState.STOPPING):
            return Move.NOTHING
        return Move.LATER if group.is_paused else Move.ASK
    if step.state.is_failed and group.goes_forward:
        return Move.FAIL
    if step.state is not StepState.PENDING or not group.goes_forward:
        return Move.NOTHING
    if group.is_paused:
        return Move.LATER
    return Move.CONFIRM if step.irreversible else Move.RUN


def begun(step: Facts) -> Facts:
    """Return a step that is about to be run: this is written before it is."""
    return _now(step, StepState.RUNNING, attempts=step.attempts + 1, asks=0)


def after(group: Standing, step: Facts, happened: Happened) -> Outcome:
    """Say what something that happened to a step on its way forward leads to."""
    match happened:
        case Happened.RETURNED | Happened.APPLIED:
            return Outcome(_now(step, StepState.APPLIED, is_doubtful=False), Then.DONE)
        case Happened.RAISED:
            return Outcome(_now(step, StepState.UNKNOWN), Then.ASK)
        case Happened.STILL_RUNNING:
            return Outcome(_now(step, StepState.UNKNOWN, asks=0), Then.LOOK_AGAIN)
        case Happened.REJECTED | Happened.UNCONFIRMED:
            return _failed(group, step)
        case Happened.NOT_BEGUN:
            return _not_applied(group, step)
        case Happened.NOT_APPLIED:
            return _not_applied(group, _now(step, is_doubtful=False))
        case Happened.ASK_FAILED if step.asks + 1 < ASKS_MAX:
            # An irreversible step that asks about others has not begun.
            state = StepState.UNKNOWN if step.state.is_uncertain else step.state
            return Outcome(_now(step, state, asks=step.asks + 1), Then.ASK_AGAIN)
        case Happened.ASK_FAILED if not step.state.is_uncertain:
            return _failed(group, step)
        case _:
            return _cannot_tell(group, _now(step, is_doubtful=True))


def _not_applied(group: Standing, step: Facts) -> Outcome:
    if group.goes_forward and step.attempts < step.attempts_max:
        return Outcome(_now(step, StepState.PENDING), Then.TRY_AGAIN)
    return _failed(group, step)


def _cannot_tell(group: Standing, step: Facts) -> Outcome:
    if step.idempotent and group.goes_forward and step.attempts < step.attempts_max:
        return Outcome(_now(step, StepState.PENDING), Then.TRY_AGAIN)
    return _failed(group, step)


def _failed(group: Standing, step: Facts) -> Outcome:
    state = StepState.POSSIBLY_APPLIED if step.is_doubtful else StepState.NOT_APPLIED
    step = _now(step, state)
    if not group.goes_forward:
        return Outcome(step, Then.DONE)  # the undo waits for it to end
    stuck = group.has_begun_irreversible
    return Outcome(step, Then.BURY, GroupState.STUCK if stuck else GroupState.STOPPING)


# Back


def next_undo(group: Standing, step: Facts) -> Move:
    """Say what the job of a step's undo does when its turn has come."""
    if group.state is not GroupState.UNDOING or not step.state.is_being_undone:
        return Move.NOTHING
    if group.is_paused:
        return Move.LATER
    if step.state is not StepState.TO_UNDO and step.has_verify:
        return Move.ASK
    return Move.RUN


def undo_begun(step: Facts) -> Facts:
    """Return a step whose undo is about to be run."""
    return _now(step, StepState.UNDOING, undo_attempts=step.undo_attempts + 1, asks=0)


def after_undo(step: Facts, happened: Happened) -> Outcome:
    """Say what something that happened to a step's undo leads to. An undo never gets in the way of
    others: the job is done, also if the step could not be undone.
    """
    match happened:
        case Happened.RETURNED | Happened.NOT_APPLIED:
            return Outcome(_now(step, StepState.UNDONE), Then.DONE)
        case Happened.RAISED if step.has_verify:
            return Outcome(_now(step, StepState.UNDO_UNKNOWN), Then.ASK)
        case Happened.STILL_RUNNING:
            return Outcome(_now(step, StepState.UNDO_UNKNOWN, asks=0), Then.LOOK_AGAIN)
        case Happened.ASK_FAILED if step.asks + 1 < ASKS_MAX:
            asked = _now(step, StepState.UNDO_UNKNOWN, asks=step.asks + 1)
            return Outcome(asked, Then.ASK_AGAIN)
        case Happened.REJECTED:
            return Outcome(_now(step, StepState.NOT_UNDONE), Then.DONE)
        case _ if step.undo_attempts < step.undo_attempts_max:
            return Outcome(_now(step, StepState.TO_UNDO), Then.TRY_AGAIN)
        case _:
            return Outcome(_now(step, StepState.NOT_UNDONE), Then.DONE)


# The whole group


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a whole group: its state, its steps', and the jobs that carry it on.

    - ``cancel``: steps whose jobs are cancelled, in this order;
    - ``undo``: steps whose undo gets a new job, each with those whose undo it waits for;
    - ``watch``: steps whose jobs it waits for, to be looked at again when all have ended, or one
      ended and nobody wrote down how; ``only_deaths``: only then.
    """

    state: GroupState
    steps: dict[int, StepState] = {}
    cancel: list[int] = []
    undo: dict[int, list[int]] = {}
    watch: list[int] = []
    only_deaths: bool = False


def turn(
    group: Standing, steps: Sequence[Facts], after: Graph, *, gone: Collection[int] = ()
) -> Turn:
    """Look at a whole group, and say what is to be done.

    ``gone``: steps whose jobs ended without a word: buried by the engine after crashes, cancelled
    or dropped by a person.
    """
    states = [step.state for step in steps]
    if group.state in (GroupState.DONE, GroupState.UNDONE):
        return Turn(state=group.state)
    doubtful = {number for number, step in enumerate(steps) if step.is_doubtful}
    if group.state is GroupState.STOPPING:
        return _stop(states, after, gone, doubtful)
    if not group.goes_forward:
        return _undo_on(states, after, gone)
    changed = {
        number: StepState.POSSIBLY_APPLIED
        if states[number].is_uncertain or number in doubtful
        else StepState.NOT_APPLIED
        for number in gone
        if states[number].is_uncertain or states[number] is StepState.PENDING
    }
    states = [changed.get(number, state) for number, state in enumerate(states)]
    if all(state.is_passed for state in states):
        return Turn(state=GroupState.DONE)
    has_failed = any(state.is_failed for state in states)
    if has_failed and not group.has_begun_irreversible:
        return _stop(states, after, (), doubtful, changed)
    watch = [number for number, state in enumerate(states) if not _has_ended(state)]
    state = GroupState.STUCK if has_failed else GroupState.RUNNING
    return Turn(state=state, steps=changed, watch=watch, only_deaths=True)


def _stop(
    states: list[StepState],
    after: Graph,
    gone: Collection[int],
    doubtful: Collection[int],
    changed: dict[int, StepState] | None = None,
) -> Turn:
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
        elif state.is_uncertain and number not in gone:
            watch.append(number)
        elif state.is_uncertain:
            changed[number] = StepState.POSSIBLY_APPLIED
            to_undo.append(number)
        elif state in (StepState.APPLIED, StepState.POSSIBLY_APPLIED):
            to_undo.append(number)
    if watch:
        return Turn(state=GroupState.STOPPING, steps=changed, cancel=cancel, watch=watch)
    if not to_undo:
        return Turn(state=GroupState.UNDONE, steps=changed, cancel=cancel)
    changed |= dict.fromkeys(to_undo, StepState.TO_UNDO)
    now = [changed.get(number, state) for number, state in enumerate(states)]
    return Turn(
        state=GroupState.UNDOING,
        steps=changed,
        cancel=cancel,
        undo=undo_waits(now, after, to_undo),
        watch=to_undo,
    )


def _undo_on(states: list[StepState], after: Graph, gone: Collection[int]) -> Turn:
    """Go on with an undo: past those that died, to its end."""
    changed = {number: StepState.NOT_UNDONE for number in gone if states[number].is_being_undone}
    states = [changed.get(number, state) for number, state in enumerate(states)]
    watch = [number for number, state in enumerate(states) if state.is_being_undone]
    if not watch:
        return Turn(state=state_back(states), steps=changed)
    # Jobs that wait for a dead one would wait for ever: they are made anew.
    again = [number for number in watch if changed and states[number] is StepState.TO_UNDO]
    undo = undo_waits(states, after, again)
    return Turn(state=GroupState.UNDOING, steps=changed, undo=undo, watch=watch)


def state_back(states: Sequence[StepState]) -> GroupState:
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
    steps it came after, which wait for it from now on.
    """
    again = [one for one in chain(after, number) if states[one].is_being_undone]
    return undo_waits(states, after, [one for one in again if states[one] is not StepState.UNDOING])


def _has_ended(state: StepState) -> bool:
    return not (state.is_uncertain or state is StepState.PENDING)


# What a person asks for


def why_not_undo(group: Standing) -> str | None:
    """Say why a group cannot be undone, if it cannot."""
    if group.has_begun_irreversible:
        return "an irreversible step of it has begun, so it only goes forward"
    if group.state is GroupState.STUCK:
        return "it is being undone already, and is stuck: retry or skip what is not undone"
    if group.state in (GroupState.STOPPING, GroupState.UNDOING, GroupState.UNDONE):
        return f"it is {group.state}"
    return None


def retried(group: Standing, step: Facts) -> Facts | None:
    """Return a step that is to be tried again with fresh attempts; None if there is no need."""
    if group.has_begun_irreversible:
        if step.state is StepState.POSSIBLY_APPLIED and step.has_verify:
            return _now(step, StepState.UNKNOWN, attempts=0, asks=0)
        if step.state.is_failed:  # a person has looked, and says that it may run again
            return _now(step, StepState.PENDING, attempts=0, asks=0)
        return None
    if step.state is StepState.NOT_UNDONE:
        return _now(step, StepState.UNDO_UNKNOWN, undo_attempts=0, asks=0)
    return None


def skipped(group: Standing, step: Facts) -> Facts | None:
    """Return a step that is to be left as it is; None if there is no need."""
    if group.has_begun_irreversible:
        return _now(step, StepState.SKIPPED) if step.state.is_failed else None
    return _now(step, StepState.UNDO_SKIPPED) if step.state is StepState.NOT_UNDONE else None


def _now(step: Facts, state: StepState | None = None, **changes: object) -> Facts:
    if state is not None:
        changes["state"] = state
    return msgspec.structs.replace(step, **changes)

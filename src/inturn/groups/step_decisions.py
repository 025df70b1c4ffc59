"""What happens next in a group: pure functions of where it stands and what has happened.

The forward order is the engine's. These functions say what a step's job does when its turn has
come, what follows when it ends, and what becomes of the whole group when a step has failed.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from inturn.groups.model import Effect, GroupState, StepState

ASKS_MAX = 5
"""How often a verify that fails itself is asked, until it is taken for one that cannot tell."""


class GroupFacts(msgspec.Struct, frozen=True, kw_only=True):
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


class StepFacts(msgspec.Struct, frozen=True, kw_only=True):
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
    NOTHING_DONE = "nothing_done"  # its node could not be reached, or rolled it back
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
    """What follows from what happened: the step as it is now, its job, and its group."""

    facts: StepFacts
    then: Then
    group: GroupState | None = None


# Forward


def next_move(group: GroupFacts, step: StepFacts) -> Move:
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


def begun(step: StepFacts) -> StepFacts:
    """Return a step that is about to be run: this is written before it is."""
    return _now(step, StepState.RUNNING, attempts=step.attempts + 1, asks=0)


def after(group: GroupFacts, step: StepFacts, happened: Happened) -> Outcome:
    """Say what follows from what happened to a step on its way forward."""
    match happened:
        case Happened.RETURNED | Happened.APPLIED:
            return Outcome(_now(step, StepState.APPLIED, is_doubtful=False), Then.DONE)
        case Happened.RAISED:
            return Outcome(_now(step, StepState.UNKNOWN), Then.ASK)
        case Happened.STILL_RUNNING:
            return Outcome(_now(step, StepState.UNKNOWN, asks=0), Then.LOOK_AGAIN)
        case Happened.REJECTED | Happened.UNCONFIRMED:
            return _failed(group, step)
        case Happened.NOTHING_DONE:
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


def _not_applied(group: GroupFacts, step: StepFacts) -> Outcome:
    if group.goes_forward and step.attempts < step.attempts_max:
        return Outcome(_now(step, StepState.PENDING), Then.TRY_AGAIN)
    return _failed(group, step)


def _cannot_tell(group: GroupFacts, step: StepFacts) -> Outcome:
    if step.idempotent and group.goes_forward and step.attempts < step.attempts_max:
        return Outcome(_now(step, StepState.PENDING), Then.TRY_AGAIN)
    return _failed(group, step)


def _failed(group: GroupFacts, step: StepFacts) -> Outcome:
    state = StepState.POSSIBLY_APPLIED if step.is_doubtful else StepState.NOT_APPLIED
    step = _now(step, state)
    if not group.goes_forward:
        return Outcome(step, Then.DONE)  # the undo waits for it to end
    stuck = group.has_begun_irreversible
    return Outcome(step, Then.BURY, GroupState.STUCK if stuck else GroupState.STOPPING)


# Back


def next_undo(group: GroupFacts, step: StepFacts) -> Move:
    """Say what the job of a step's undo does when its turn has come."""
    if group.state is not GroupState.UNDOING or not step.state.is_being_undone:
        return Move.NOTHING
    if group.is_paused:
        return Move.LATER
    if step.state is not StepState.TO_UNDO and step.has_verify:
        return Move.ASK
    return Move.RUN


def undo_begun(step: StepFacts) -> StepFacts:
    """Return a step whose undo is about to be run."""
    return _now(step, StepState.UNDOING, undo_attempts=step.undo_attempts + 1, asks=0)


def after_undo(step: StepFacts, happened: Happened) -> Outcome:
    """Say what follows from what happened to a step's undo. Its job is done although the step could
    not be undone: others wait for it.
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


# What a person asks for


def why_not_undo(group: GroupFacts) -> str | None:
    """Say why a group cannot be undone, if it cannot."""
    if group.has_begun_irreversible:
        return "an irreversible step of it has begun, so it only goes forward"
    if group.state is GroupState.STUCK:
        return "it is being undone already, and is stuck: retry or skip what is not undone"
    if group.state in (GroupState.STOPPING, GroupState.UNDOING, GroupState.UNDONE):
        return f"it is {group.state}"
    return None


def retried(group: GroupFacts, step: StepFacts) -> StepFacts | None:
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


def skipped(group: GroupFacts, step: StepFacts) -> StepFacts | None:
    """Return a step that is to be left as it is; None if there is no need."""
    if group.has_begun_irreversible:
        return _now(step, StepState.SKIPPED) if step.state.is_failed else None
    return _now(step, StepState.UNDO_SKIPPED) if step.state is StepState.NOT_UNDONE else None


def _now(step: StepFacts, state: StepState | None = None, **changes: object) -> StepFacts:
    if state is not None:
        changes["state"] = state
    return msgspec.structs.replace(step, **changes)

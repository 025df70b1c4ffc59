"""What a store keeps of groups: the rows, and the queries that read and write them."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

import msgspec

from inturn.groups.model import GroupState, GroupView, Node, Step, StepState, StepView
from inturn.groups.step_decisions import GroupFacts, StepFacts
from inturn.store.queries import Query
from inturn.store.schema import Schema

PACKAGE = "inturn.groups"
SCHEMA = Schema("groups", PACKAGE)


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group. ``finish`` and ``react`` are the jobs that look at it as a whole, next."""

    id: str
    name: str
    state: GroupState
    pivot: str | None
    paused_by: str | None
    paused_at: datetime | None
    paused_but: int | None  # a step that is tried all the same
    reason: str | None
    steps: int
    finish: str | None
    react: str | None
    created_at: datetime
    ended_at: datetime | None

    @property
    def facts(self) -> GroupFacts:
        """The group as decisions see it."""
        return GroupFacts(
            state=self.state,
            has_begun_irreversible=self.pivot is not None,
            is_paused=self.paused_by is not None,
        )

    def facts_of(self, step: int) -> GroupFacts:
        """The group as decisions about one of its steps see it."""
        if self.paused_but != step:
            return self.facts
        return msgspec.structs.replace(self.facts, is_paused=False)

    def view(self, ended: int, not_undone: int) -> GroupView:
        """The group as a person sees it, with how many of its steps have ended, and how many could
        not be undone or were left as they are.
        """
        counted = {"step_count": self.steps, "ended": ended, "not_undone_count": not_undone}
        return GroupView(**_shared(self, GroupView) | counted)


class ListedGroupRow(GroupRow, frozen=True, kw_only=True):
    """A group in a list."""

    ended: int
    not_undone: int


class FactsRow(msgspec.Struct, frozen=True, kw_only=True):
    """A step as decisions about the whole group see it."""

    number: int
    name: str
    node: str
    state: StepState
    attempts: int
    attempts_max: int
    undo_attempts: int
    undo_attempts_max: int
    asks: int
    is_doubtful: bool
    has_verify: bool
    idempotent: bool
    irreversible: bool
    comes_after: str
    definition: str
    job: str
    undo_job: str | None

    @property
    def step(self) -> Step:
        """The step as it was defined."""
        return _decode_step(self.definition)

    @property
    def facts(self) -> StepFacts:
        """The step as decisions see it."""
        return msgspec.convert(self, StepFacts, from_attributes=True)

    @property
    def after(self) -> tuple[int, ...]:
        """The numbers of the steps that it comes after."""
        return msgspec.json.decode(self.comes_after, type=tuple[int, ...])


class StepRow(FactsRow, frozen=True, kw_only=True):
    """A step, whole, with its node's address."""

    group_id: str
    group_name: str = ""
    token: int
    answer: str | None
    error: str | None
    why: str | None
    began_at: datetime | None
    ended_at: datetime | None
    undo_began_at: datetime | None
    undo_ended_at: datetime | None
    address: str | None = None

    def view(self, names: dict[int, str] | None = None) -> StepView:
        """The step as a person sees it. ``names``: of the steps it comes after."""
        named = names or {}
        after = tuple(named.get(number, str(number)) for number in self.after)
        return StepView(**_shared(self, StepView) | {"group": self.group_name, "after": after})


class BegunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A step that is about to run."""

    group_id: str
    number: int
    node: str
    definition: str

    @property
    def step(self) -> Step:
        """The step as it was defined."""
        return _decode_step(self.definition)


class LeasedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step whose turn has come, or that was applied, under a lease."""

    group_id: str
    number: int
    job: str
    token: int


class NewStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step on its way into the store."""

    group_id: str
    number: int
    name: str
    node: str
    definition: str
    comes_after: str
    attempts_max: int
    undo_attempts_max: int
    has_verify: bool
    idempotent: bool
    irreversible: bool
    job: str


class NewState(msgspec.Struct, frozen=True, kw_only=True):
    """A step's next state, where many change together."""

    group_id: str
    number: int
    state: StepState
    job: str | None = None
    undo_job: str | None = None
    error: str | None = None


class Ended(msgspec.Struct, frozen=True):
    """How many steps of a group have ended, and how many of them are not undone."""

    ended: int
    not_undone: int


class Depth(msgspec.Struct, frozen=True):
    """How many steps wait or run on a node."""

    node: str
    steps: int


class Durations(msgspec.Struct, frozen=True):
    """How long steps took, and how many failed."""

    mean_seconds: float | None
    ended: int
    failed: int


class Id(msgspec.Struct, frozen=True):
    """The id of a group."""

    id: str


ADD_GROUP = Query(PACKAGE, "add_group")
ADD_STEPS = Query(PACKAGE, "add_steps")
LOCK_GROUP = Query(PACKAGE, "lock_group", GroupRow)
GROUP = Query(PACKAGE, "group", GroupRow)
NEWEST_GROUP = Query(PACKAGE, "newest_group", GroupRow)
GROUPS = Query(PACKAGE, "groups", ListedGroupRow)
ENDED_STEPS = Query(PACKAGE, "ended_steps", Ended)
SAVE_GROUP = Query(PACKAGE, "save_group")
SAVE_WATCH = Query(PACKAGE, "save_watch")
PAUSE = Query(PACKAGE, "pause")
STEP = Query(PACKAGE, "step", StepRow)
STEPS = Query(PACKAGE, "steps", StepRow)
FACTS = Query(PACKAGE, "facts", FactsRow)
BEGIN_STEPS = Query(PACKAGE, "begin_steps", BegunRow)
STEPS_APPLIED = Query(PACKAGE, "steps_applied")
BEGIN_STEP = Query(PACKAGE, "begin_step")
SAVE_STEP = Query(PACKAGE, "save_step")
BEGIN_UNDO = Query(PACKAGE, "begin_undo")
SAVE_UNDO = Query(PACKAGE, "save_undo")
SAVE_RETRY = Query(PACKAGE, "save_retry")
SAVE_STATES = Query(PACKAGE, "save_states")
NODES = Query(PACKAGE, "nodes", Node)
NODES_OF_GROUP = Query(PACKAGE, "nodes_of_group", Node)
NODE_USER = Query(PACKAGE, "node_user", GroupRow)
PUT_NODE = Query(PACKAGE, "put_node")
PENDING = Query(PACKAGE, "pending", StepRow)
OF_NODE = Query(PACKAGE, "of_node", StepRow)
DEPTH_BY_NODE = Query(PACKAGE, "depth_by_node", Depth)
DURATIONS = Query(PACKAGE, "durations", Durations)
PRUNE = Query(PACKAGE, "prune", Id)
DROP_STEPS = Query(PACKAGE, "drop_steps")
DROP_GROUP = Query(PACKAGE, "drop_group")


def new_step(group: str, number: int, step: Step, job: str) -> NewStep:
    """Return a step on its way into the store."""
    return NewStep(
        group_id=group,
        number=number,
        name=step.name,
        node=step.node,
        definition=msgspec.json.encode(step).decode(),
        comes_after=msgspec.json.encode(step.after).decode(),
        attempts_max=step.attempts,
        undo_attempts_max=step.undo_attempts,
        has_verify=step.verify is not None,
        idempotent=step.idempotent,
        irreversible=step.irreversible,
        job=job,
    )


def _shared(row: msgspec.Struct, view: type[msgspec.Struct]) -> dict[str, Any]:
    """Return what a view has in common with the row it shows."""
    return {name: getattr(row, name) for name in _names_shared(type(row), view)}


@cache
def _names_shared(row: type[msgspec.Struct], view: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(name for name in view.__struct_fields__ if hasattr(row, name))


_decode_step = msgspec.json.Decoder(Step).decode

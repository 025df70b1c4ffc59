"""One group, as its producer has it: built step by step, submitted whole, awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from shlex import quote
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from inturn.groups.builder import GroupBuilder, check_nodes
from inturn.groups.errors import GroupTimeout
from inturn.groups.model import NOT_UNDONE, Definition, GroupState, StepView
from inturn.groups.plan import Plan, plan_of
from inturn.model.errors import BadInput

if TYPE_CHECKING:
    from inturn.groups.groups import Groups

LOOK_SECONDS_FIRST = 0.01
LOOK_SECONDS_MAX = 0.25
_ENDS = (GroupState.DONE, GroupState.UNDONE, GroupState.STUCK)


class GroupResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a group ended. ``not_undone``: steps that could not be undone, or were left as they are.

    ``reason``: why it was undone, or is stuck.
    """

    state: GroupState
    reason: str | None
    steps: Sequence[StepView]
    not_undone: tuple[str, ...]


class Group(GroupBuilder):
    """A group of steps: ``async with app.group("move") as group`` submits it when its block ends.

    A block that ends with an error submits nothing.
    """

    def __init__(self, groups: Groups, name: str) -> None:
        super().__init__(name, groups.app)
        self._groups = groups

    @property
    def id(self) -> str:
        """Its id, once it is submitted."""
        if self._id is None:
            raise BadInput(f"group {self.name!r} is not submitted yet: that is at its block's end.")
        return self._id

    def definition(self) -> Definition:
        """Return the group as data, checked; nothing is stored."""
        definition = self.finished()
        check_nodes(definition, self._groups.nodes)
        return definition

    def plan(self) -> Plan:
        """Say what the group would do, in which order, and how it would be undone."""
        definition = self.definition()
        return plan_of(definition.name, definition.steps)

    async def submit(self) -> Self:
        """Submit the group whole."""
        if self._id is not None:
            raise BadInput(f"group {self.name!r} was submitted before, as {self._id}.")
        self._id = await self._groups.submit(self.finished())
        return self

    async def result(self, timeout: float | None = None) -> GroupResult:
        """Wait until the group is done, undone, or stuck. Raises ``GroupTimeout``."""
        return await result_of(self._groups, self.id, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            await self.submit()

    def __repr__(self) -> str:
        return f"<Group {self.name!r}{'' if self._id is None else f', submitted as {self._id}'}>"


async def result_of(groups: Groups, group: str, timeout: float | None = None) -> GroupResult:
    """Wait until a group, by its id, is done, undone, or stuck."""
    ends_at = None if timeout is None else time.monotonic() + timeout
    pause = LOOK_SECONDS_FIRST
    while True:
        row = await groups.row(group)
        if row.state in _ENDS:
            steps = await groups.steps(group)
            return GroupResult(
                state=row.state,
                reason=row.reason,
                steps=steps,
                not_undone=tuple(step.name for step in steps if step.state in NOT_UNDONE),
            )
        if ends_at is not None and time.monotonic() >= ends_at:
            view = await groups.get(group)
            raise GroupTimeout(
                f"group {view.name!r} is {view.state} after {timeout:g} s, {view.percent} % of it. "
                f"Look with `inturn groups show {quote(view.name)}`."
            )
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, LOOK_SECONDS_MAX)

"""Groups as text for people: a tree of steps, a plan, a line of a list."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from inturn.cli.text import Cell, age, count, duration, name_text, one_line, plain, state_text
from inturn.groups.model import NOT_UNDONE, GroupState, GroupView, StepState, StepView
from inturn.groups.plan import Plan, waves

STYLES = {
    "stopping": "yellow",
    "undoing": "yellow",
    "undone": "yellow",
    "stuck": "red",
    "unknown": "yellow",
    "applied": "green",
    "not_applied": "red",
    "possibly_applied": "red",
    "not_undone": "red",
    "undo_skipped": "yellow",
    "to_undo": "yellow",
    "undo_unknown": "yellow",
}
_NAMES_MAX = 8
_FOLDED = (StepState.APPLIED, StepState.CANCELLED, StepState.SKIPPED, StepState.UNDONE)


def coloured(state: str) -> Text:
    """Return a state in its colour."""
    return Text(state.replace("_", " "), STYLES.get(state, state_text(state).style))


def group_cells(group: GroupView, now: datetime) -> tuple[Cell, ...]:
    """Return a group as a line of a list."""
    return (
        name_text(group.name),
        coloured(group.state),
        f"{group.percent} %",
        f"{group.step_count:,}",
        age(group.created_at, now),
        one_line("; ".join(filter(None, (_state_note(group), group.reason)))),
    )


def _state_note(group: GroupView) -> str:
    if group.paused_by:
        return f"paused by {group.paused_by}"
    not_undone = group.not_undone_count
    return f"{count(not_undone, 'step')} not undone" if not_undone else ""


def tree(group: GroupView, steps: Sequence[StepView], *, whole: bool) -> RenderableType:
    """Return a group with its steps in waves; those that are finished in one line each."""
    head = Text.assemble(
        (plain(group.name), "bold"), "  ", coloured(group.state), f"  {group.percent} %",
        f"  {group.ended:,} of {count(group.step_count, 'step')}",
    )  # fmt: skip
    lines: list[RenderableType] = [head]
    for said, text in (
        ("paused by", group.paused_by),
        ("past", group.pivot and f"{group.pivot}: it only goes forward"),
        ("because", group.reason),
    ):
        if text:
            lines.append(Text(f"  {said} {one_line(text)}"))
    numbers = {step.name: step.number for step in steps}
    found = waves([[numbers[name] for name in step.after] for step in steps])
    for place, wave in enumerate(found, start=1):
        some = [steps[number] for number in wave]
        if not whole and all(step.state in _FOLDED for step in some):
            lines.append(Text.assemble(f"wave {place}  ", _folded(some)))
        else:
            lines += [Text(f"wave {place}"), _wave(some)]
    not_undone = [step for step in steps if step.state in NOT_UNDONE]
    if not_undone and group.state in (GroupState.STUCK, GroupState.UNDONE):
        owed = ", ".join(f"{step.name} on {step.node}" for step in not_undone)
        lines.append(Text(plain(f"not undone: {owed}"), "red"))
    return Group(*lines)


def _folded(steps: Sequence[StepView]) -> Text:
    if len(steps) == 1:
        return Text.assemble(plain(steps[0].name), "  ", coloured(steps[0].state))
    states = {step.state for step in steps}
    said: list[Text | str] = [count(len(steps), "step"), "  "]
    for state in sorted(states):
        number = sum(step.state is state for step in steps)
        said += [f"{number:,} " if len(states) > 1 else "", coloured(state), " "]
    return Text.assemble(*said)


def _wave(steps: Sequence[StepView]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(3):
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for step in steps:
        grid.add_row(f"  {plain(step.name)}", plain(step.node), coloured(step.state), _note(step))
    return grid


def _note(step: StepView) -> str:
    said = []
    if step.attempts > 1 or (step.attempts and step.state is not StepState.APPLIED):
        said.append(f"attempt {step.attempts} of {step.attempts_max}")
    if step.undo_attempts > 1:
        said.append(f"undo attempt {step.undo_attempts} of {step.undo_attempts_max}")
    if step.seconds is not None:
        said.append(duration(step.seconds))
    if step.irreversible:
        said.append("irreversible")
    if step.after and step.state is StepState.PENDING:
        names = ", ".join(step.after[:_NAMES_MAX])
        more = len(step.after) - _NAMES_MAX
        said.append(f"after {names}{f' and {more:,} more' if more > 0 else ''}")
    if step.answer is not None:
        said.append(f"verify: {one_line(step.answer)}")
    if step.error is not None and step.state is not StepState.APPLIED:
        said.append(one_line(step.error))
    if step.why is not None:
        said.append(f"why: {one_line(step.why)}")
    return "; ".join(said)


def plan_text(plan: Plan, undeclared: Sequence[str]) -> RenderableType:
    """Return a plan. ``undeclared``: nodes that neither the file nor the app declares."""
    steps = sum(map(len, plan.waves))
    lines: list[RenderableType] = [
        Text.assemble((plain(plan.name), "bold"), f"  {count(steps, 'step')}"),
        Text("forward, each wave when the one before it has ended:"),
        *(_names(f"wave {place}", names) for place, names in enumerate(plan.waves, start=1)),
        Text("undone, if one fails:" if plan.undo_waves else "never undone"),
        *(_names(f"wave {place}", names) for place, names in enumerate(plan.undo_waves, start=1)),
        Text("what runs where:"),
        *(_names(node, names) for node, names in plan.nodes.items()),
        _names("longest path", plan.longest_path, " → ", indent=""),
    ]
    if plan.irreversible:
        lines.append(_names("irreversible", plan.irreversible, indent=""))
    if undeclared:
        lines.append(_names("not declared here, the store must know", undeclared, indent=""))
    return Group(*lines)


def _names(head: str, names: Sequence[str], between: str = ", ", indent: str = "  ") -> Text:
    shown = between.join(names[:_NAMES_MAX])
    more = len(names) - _NAMES_MAX
    rest = f" and {more:,} more" if more > 0 else ""
    return Text(plain(f"{indent}{head}: {shown}{rest}"))
